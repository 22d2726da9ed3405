"""A trace with how long its kernels took, where events of the same job tell: the median of the times of a name.

A trace that a job has written has no times (doc/TRACE.md); a replay, and the bound, then guess them from the bytes touched.
"""

import collections
import statistics

NAME_BYTES = 119  # of a name in a file of events
LAUNCHES = ("l", "o", "t")


def durations(events):
    """Nanoseconds by name, of what was measured on the device."""
    each = collections.defaultdict(list)
    for lane, spans in events.lanes.items():
        if "kernels" in lane:
            for span in spans:
                if span.args.get("time", "of the device") == "of the device" and span.end > span.begin:
                    each[span.name].append(span.end - span.begin)
    return {name: max(1, round(1e9 * statistics.median(times))) for name, times in each.items()}


def write(trace, events, output):
    """Writes that trace; (launches that have a time by it, launches)."""
    known, names, filled, launches = durations(events), [], 0, 0
    with open(trace, encoding="utf-8", errors="replace") as given, open(output, "w", encoding="utf-8") as made:
        for line in given:
            kind = line[0]
            if kind == "n":
                text = line.rstrip("\n").split(" ", 2)[2]
                # As it stands in a file of events: what is no printable ASCII is a question mark.
                names.append("".join(c if " " <= c <= "~" else "?" for c in text)[:NAME_BYTES])
            elif kind in LAUNCHES and line[1] == " ":
                fields = line.rstrip("\n").split(" ")
                launches += 1
                time = known.get(names[int(fields[2])])
                if fields[3] == "-" and time:
                    fields[3], filled = str(time), filled + 1
                    line = " ".join(fields) + "\n"
            made.write(line)
    return filled, launches
