"""Reuse distances of a trace, and what least-recently-used would miss with so much HBM.

The distance of a touch: bytes of different allocations touched since the same one was touched last, itself included, without those
freed meanwhile: with that much HBM, or more, it is still there under LRU. Whole allocations, no frames.
"""

import dataclasses

import report_files

TOUCHES_FROM = {"l": 3, "o": 3, "t": 3, "m": 1, "c": 3}  # fields ahead of an event's touches


@dataclasses.dataclass
class Reuse:
    distances: list  # [(distance, bytes touched)] of touches that are not an allocation's first, ascending
    touched: int  # bytes, of all touches that count
    first: int  # bytes, of first touches among them

    def missed(self, hbm):
        """Bytes that were touched before and would not be there."""
        return sum(size for distance, size in self.distances if distance > hbm)

    @property
    def enough(self):
        """The least HBM with which LRU misses nothing."""
        return self.distances[-1][0] if self.distances else 0


class _Sums:
    """Numbers at positions, and sums of them (Fenwick)."""

    def __init__(self, size):
        self.tree = [0] * (size + 1)
        self.total = 0

    def add(self, position, value):
        self.total += value
        position += 1
        tree, end = self.tree, len(self.tree)
        while position < end:
            tree[position] += value
            position += position & -position

    def behind(self, position):
        """The sum of all positions after that one."""
        found, position, tree = self.total, position + 1, self.tree
        while position:
            found -= tree[position]
            position &= position - 1
        return found


def _lines(path):
    """(number, kind, fields) of the events. A damaged trace is replay's to find: this comes behind it."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            next(file)
            for number, line in enumerate(file, 2):
                if line[0] != "n":
                    kind, *fields = line.split()
                    yield number, kind, fields
    except OSError as error:
        raise report_files.Unreadable(f"{path}: {error.strerror}") from None


def _births(fields, kind):
    return sorted({int(touch.rstrip("rw")) for touch in fields[TOUCHES_FROM[kind] :]})


def of_trace(path, first_launch):
    """Reuse of what is touched from launch number first_launch on (from 0); what came before counts as history."""
    touches = sum(len(_births(fields, kind)) for _, kind, fields in _lines(path) if kind in TOUCHES_FROM)
    sums, sizes, last = _Sums(touches), [], {}
    launch, now, touched, first, distances = -1, 0, 0, 0, []
    for _, kind, fields in _lines(path):
        if kind == "a":
            sizes.append(int(fields[1]))
        elif kind == "f":
            birth = int(fields[0])
            if birth in last:
                sums.add(last.pop(birth), -sizes[birth])
        elif kind in TOUCHES_FROM:
            launch += kind in ("l", "o", "t")
            for birth in _births(fields, kind):
                size, before = sizes[birth], last.get(birth)
                counts = launch >= first_launch
                touched += size * counts
                if before is None:
                    first += size * counts
                else:
                    if counts:
                        distances.append((sums.behind(before) + size, size))
                    sums.add(before, -size)
                last[birth] = now
                sums.add(now, size)
                now += 1
    distances.sort()
    return Reuse(distances, touched, first)
