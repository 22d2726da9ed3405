"""What hbmspill writes, read: statistics (HBMSPILL_STATS), traces (HBMSPILL_TRACE) and events (HBMSPILL_TRACE_EVENTS, hbmspill-replay --events).

Times are seconds, sizes bytes.
"""

import dataclasses
import gzip
import json
import pathlib

TRACE_FIRST_LINE = "hbmspill-trace 1"


class Unreadable(Exception):
    """A file that cannot be used; the text says which and why."""


@dataclasses.dataclass(slots=True)
class Span:
    begin: float
    end: float
    name: str
    args: dict


@dataclasses.dataclass
class Events:
    path: str
    about: dict  # of the process: device, modelled ...
    lanes: dict  # name: [Span], by begin
    counters: dict  # name: [(time, {key: value})], by time
    cut: bool  # the file had grown to its limit
    apart: int = 0  # spans that were left out, because the host timed them and the device's clock is another


def _open(path):
    raw = pathlib.Path(path).open("rb")  # pylint: disable=consider-using-with
    magic = raw.read(2)
    raw.seek(0)
    return gzip.open(raw) if magic == b"\x1f\x8b" else raw


def _text(path):
    """All of a file; of a compressed one whose end is missing, what is there."""
    pieces = []
    try:
        with _open(path) as file:
            while piece := file.read1(1 << 20):
                pieces.append(piece)
    except EOFError:
        pass
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror or error}") from None
    return b"".join(pieces).decode("utf-8", "replace")


def kind_of(path):
    """'trace', 'events' or 'statistics'."""
    try:
        with _open(path) as file:
            head = file.read(256).decode("utf-8", "replace")
    except (OSError, EOFError) as error:
        raise Unreadable(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if head.startswith(TRACE_FIRST_LINE + "\n"):
        return "trace"
    if head.lstrip().startswith("["):
        return "events"
    if head.lstrip().startswith("{"):
        return "statistics"
    raise Unreadable(f"{path}: neither statistics (HBMSPILL_STATS), a trace (HBMSPILL_TRACE) nor events (HBMSPILL_TRACE_EVENTS)")


def statistics(path):
    try:
        found = json.loads(_text(path))
    except ValueError as error:
        raise Unreadable(f"{path}: damaged JSON: {error}") from None
    if not isinstance(found, dict) or "devices" not in found or "bytes_in" not in found:
        raise Unreadable(f"{path}: JSON, but not hbmspill's statistics")
    return found


def each_event(path):
    """The events of a file whose end may be missing: an event is a line."""
    try:
        with _open(path) as file:
            for line in file:
                line = line.strip().rstrip(b",")
                if line not in (b"", b"[", b"]", b"[]"):
                    yield json.loads(line)
    except (EOFError, ValueError):  # cut off here
        return
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror or error}") from None


def _on_one_clock(found):
    """Without what the host timed, where that is nowhere near what the device timed: a modelled clock does not go with the host's."""
    timed = [span for spans in found.lanes.values() for span in spans if span.args.get("time", "of the device").startswith("of the device")]
    if not timed:
        return found
    begin, end = min(span.begin for span in timed), max(span.end for span in timed)
    length = max(end - begin, 1e-3)

    def near(time):
        return begin - length <= time <= end + length

    apart = sum(not near(span.begin) for spans in found.lanes.values() for span in spans)
    if not apart:
        return found
    lanes = {name: [span for span in spans if span.args.get("time", "of the device").startswith("of the device")] for name, spans in found.lanes.items()}
    counters = {name: [point for point in points if begin <= point[0] <= end] for name, points in found.counters.items()}
    return dataclasses.replace(found, lanes={name: spans for name, spans in lanes.items() if spans}, counters={name: points for name, points in counters.items() if points}, apart=apart)


def events(path):
    names, lanes, counters, about, cut = {}, {}, {}, {}, False
    try:
        for event in each_event(path):
            phase, lane, args = event["ph"], (event["pid"], event["tid"]), event.get("args", {})
            if phase == "M" and event["name"] == "thread_name":
                names[lane] = args["name"]
            elif phase == "M" and event["name"] == "hbmspill":
                about |= args
            elif phase == "X":
                begin = float(event["ts"]) * 1e-6
                lanes.setdefault(lane, []).append(Span(begin, begin + float(event["dur"]) * 1e-6, event["name"], args))
            elif phase == "C":
                counters.setdefault(event["name"], []).append((float(event["ts"]) * 1e-6, args))
            elif phase == "i":
                cut = True
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"{path}: no events of hbmspill's: {error!r}") from None
    if not lanes and not counters:
        raise Unreadable(f"{path}: there are no events in it")
    for spans in lanes.values():
        spans.sort(key=lambda span: span.begin)
    for values in counters.values():
        values.sort(key=lambda value: value[0])
    return _on_one_clock(Events(str(path), about, {names.get(lane, f"lane {lane[1]}"): spans for lane, spans in sorted(lanes.items())}, counters, cut))
