"""The report's charts, as figures of plotly.js: {"id", "title", "note", "height", "data", "layout"}.

Colours that depend on the scheme (light, dark) are the page's; here are those of what is shown, which are read on both.
"""

import bisect
import statistics

from report_advice import STALLED
from units import seconds, size

BLUE, GREEN, ORANGE, RED, GREY, PURPLE = "#4f8cf0", "#35a88a", "#e8893a", "#e0484e", "#98a2b3", "#9b7bea"
MIB = 2**20
MOST_POINTS = 3000  # of one line
MOST_BARS = 4000  # of one lane
ROUNDS_SHOWN = 2  # in the lanes
CUT = 2  # rounds that take so many times as long as those from the third on are not shown whole
LAUNCHES_SHOWN = 600  # where no rounds are known
KINDS = [("kernels", BLUE), ("copies in", GREEN), ("copies out", ORANGE), ("windows", PURPLE)]


def _thinned(points):
    """At most MOST_POINTS of (time, values): of each stretch the first, so that steps stay where they are."""
    step = max(1, len(points) // MOST_POINTS)
    return points[::step] + (points[-1:] if (len(points) - 1) % step else [])


def _memory(events):
    """The devices' counters: [(name, points)]."""
    return [(name, points) for name, points in sorted(events.counters.items()) if name.endswith("memory")]


def _areas(points, origin, axis="y", legend=True):
    rows = _thinned(points)
    x = [1e3 * (time - origin) for time, _ in rows]
    traces = []
    for key, name, colour, fill, stack in (
        ("in use", "HBM in use", BLUE, "rgba(79,140,240,0.45)", "hbm"),
        ("free", "HBM free", GREY, "rgba(152,162,179,0.20)", "hbm"),
        ("spilled", "host memory (spilled)", ORANGE, "rgba(232,137,58,0.30)", "host"),
    ):
        y = [values.get(key, 0) / MIB for _, values in rows]
        traces.append(
            {"type": "scatter", "mode": "lines", "x": x, "y": y, "name": name, "line": {"color": colour, "width": 1.2, "shape": "hv"}, "fillcolor": fill,
             "stackgroup": stack, "yaxis": axis, "showlegend": legend, "legendgroup": name, "hovertemplate": "%{y:,.1f} MiB"}
        )
    return traces


def residency(events):
    """What is where over the whole time: a chart for each device."""
    return [_residency(events, number, name, points) for number, (name, points) in enumerate(_memory(events))]


def _residency(events, number, name, points):
    device = name.removesuffix("memory").strip()
    return {
        "id": f"residency{number or ''}",
        "title": f"What is where, over time{': ' if number else ''}{device if number else ''}",
        "height": 340,
        "data": _areas(points, points[0][0]),
        "layout": {"xaxis": {"title": {"text": "ms"}}, "yaxis": {"title": {"text": "MiB"}, "rangemode": "tozero"}, "hovermode": "x unified"},
        "note": f"{len(points):,} changes of {name}; HBM in use and free add up to what the job may use. " + _clock(events),
    }


def _clock(events):
    if events.about.get("modelled"):
        return "Times are modelled."
    if "synthetic" in str(events.about.get("device", "")).lower():
        return "Times are the synthetic GPU's, and say nothing of a real one."
    return "Times are the GPU's own, but those of windows, which are the host's."


def _launches(events):
    """(begin, end) of each, ascending."""
    return sorted((span.begin, span.end) for name, spans in events.lanes.items() if _kind(name) == "kernels" for span in spans if span.name != STALLED and not span.name.startswith("the job's "))


def _window(events, period):
    """(begin, end, what that is) of what the lanes show."""
    rounds = next((spans for name, spans in events.lanes.items() if name.endswith("rounds")), [])
    if len(rounds) > ROUNDS_SHOWN:
        return rounds[-ROUNDS_SHOWN].begin, rounds[-1].end, f"the last {ROUNDS_SHOWN} of {len(rounds)} rounds"
    launches = _launches(events)
    everything = [span for spans in events.lanes.values() for span in spans]
    if period and len(launches) > (ROUNDS_SHOWN + 1) * period:
        return launches[-ROUNDS_SHOWN * period][0], max(end for _, end in launches), f"the last {ROUNDS_SHOWN} rounds"
    if len(launches) > LAUNCHES_SHOWN:
        return launches[-LAUNCHES_SHOWN][0], max(end for _, end in launches), f"the last {LAUNCHES_SHOWN} of {len(launches):,} launches"
    return min(span.begin for span in everything), max(span.end for span in everything), "all of it"


def _kind(name):
    return next((kind for kind, _ in KINDS if kind in name), None)


def lanes(events, period):
    """Kernels, copies and stalls side by side, above what is in HBM meanwhile. period: launches a round, 0 where that is not known."""
    shown = [(name, spans) for name, spans in events.lanes.items() if _kind(name)]
    if not shown:
        return None
    begin, end, what = _window(events, period)
    traces, order, left_out = [], [], 0
    for kind, colour in KINDS:
        for name, spans in shown:
            if _kind(name) != kind:
                continue
            inside = [span for span in spans if span.end >= begin and span.begin <= end]
            if not inside:
                continue
            left_out += max(0, len(inside) - MOST_BARS)
            inside = sorted(inside, key=lambda span: span.begin - span.end)[:MOST_BARS]
            order.append(name)
            traces.append(
                {"type": "bar", "orientation": "h", "name": name, "y": [name] * len(inside), "base": [1e3 * (span.begin - begin) for span in inside],
                 "x": [1e3 * max(span.end - span.begin, 1e-9) for span in inside], "marker": {"color": [RED if span.name == STALLED else colour for span in inside], "line": {"width": 0}}, "width": 0.72,
                 "text": [_told(span) for span in inside], "textposition": "none", "hovertemplate": "%{text}<extra></extra>", "showlegend": False}
            )
    points = (_memory(events) or [(None, [])])[0][1]
    at = bisect.bisect_left([time for time, _ in points], begin)
    points = [point for point in points[max(0, at - 1) :] if point[0] <= end]
    layout = {
        "barmode": "overlay",
        "xaxis": {"title": {"text": "ms"}, "anchor": "y2" if points else "y", "range": [0, 1e3 * (end - begin)]},
        "yaxis": {"categoryorder": "array", "categoryarray": order[::-1], "domain": [0.46, 1] if points else [0, 1], "automargin": True, "fixedrange": True},
        "hovermode": "closest",
    }
    if points:
        traces += _areas(points, begin, "y2")
        layout["yaxis2"] = {"domain": [0, 0.40], "title": {"text": "MiB"}, "rangemode": "tozero", "automargin": True}
    note = f"{what[0].upper()}{what[1:]}. Red: the stream stood still for a copy. Drag to look closer, double-click to come back. " + _clock(events)
    if left_out:
        note += f" The {left_out:,} shortest are left out."
    return {"id": "lanes", "title": "Kernels, copies, and what stood still", "height": 260 + 44 * len(order) + (120 if points else 0), "data": traces, "layout": layout, "note": note}


def measured_round(events, period):
    """The median time of a round of the job's own launches, or None."""
    begins = [begin for begin, _ in _launches(events)]
    each = [begins[i + period] - begins[i] for i in range(len(begins) % period, len(begins) - period, period)] if period else []
    return statistics.median(each[len(each) // 2 :]) if len(each) >= 4 else None


def _told(span):
    name = span.name if len(span.name) < 70 else span.name[:67] + "..."
    extra = "".join(f"<br>{key}: {size(value) if key == 'bytes' else value}" for key, value in span.args.items())
    return f"<b>{name}</b><br>{seconds(span.end - span.begin)}{extra}"


def rounds(replay, bound, measured):
    """How long each round takes, beside the bound. measured: seconds of a round of the job itself, or None."""
    row = replay["rows"][0]
    each = row.get("each_round_seconds") or []
    if len(each) < 2:
        return None
    number = list(range(1, len(each) + 1))
    lines = [("compute alone", replay["compute_seconds"], GREY, "dot"), ("bound: no schedule is faster", bound, GREEN, "dash"), ("measured in the job (median)", measured, PURPLE, "solid")]
    data = [
        {"type": "bar", "x": number, "y": [1e3 * value for value in each], "name": "replay (modelled)", "marker": {"color": BLUE},
         "hovertemplate": "round %{x}: %{y:.3g} ms<extra></extra>"}
    ]
    for name, value, colour, dash in lines:
        if value:
            data.append({"type": "scatter", "mode": "lines", "x": [0.5, len(each) + 0.5], "y": [1e3 * value] * 2, "name": name,
                         "line": {"color": colour, "width": 2.5, "dash": dash}, "hovertemplate": f"{name}: {seconds(value)}<extra></extra>"})
    axis, note = {"title": {"text": "ms"}, "rangemode": "tozero"}, "The first rounds find the pattern."
    usual = max(each[2:] + [value or 0 for _, value, _, _ in lines])
    if len(each) > 2 and max(each[:2]) > CUT * usual:
        axis["range"] = [0, 1.25e3 * usual]
        note = f"The first rounds find the pattern, and stand out above, with up to {seconds(max(each[:2]))}."
    return {
        "id": "rounds",
        "title": "Rounds, and the bound",
        "height": 340,
        "data": data,
        "layout": {"xaxis": {"title": {"text": "round"}, "dtick": 1 if len(each) < 20 else None}, "yaxis": axis, "bargap": 0.25},
        "note": f"{note} A round has {replay['period']:,} launches. Bars, compute and bound are modelled.",
    }


def sizes(sweep):
    """How a round would go with more or less HBM, by replay. Rows of hbmspill-replay --json."""
    rows = [row for row in sweep if row["fits"]]
    if len(rows) < 2:
        return None
    x = [row["hbm_bytes"] / MIB for row in rows]
    return {
        "id": "sizes",
        "title": "With another size of HBM",
        "height": 320,
        "data": [
            {"type": "scatter", "mode": "lines+markers", "x": x, "y": [row["slowdown"] for row in rows], "name": "slowdown", "line": {"color": BLUE, "width": 2.5},
             "hovertemplate": "%{x:,.0f} MiB: %{y:.2f} times<extra></extra>"},
            {"type": "scatter", "mode": "lines+markers", "x": x, "y": [(row["in_bytes"] + row["out_bytes"]) / MIB for row in rows], "name": "MiB moved a round", "yaxis": "y2",
             "line": {"color": ORANGE, "width": 2, "dash": "dot"}, "hovertemplate": "%{x:,.0f} MiB: %{y:,.0f} MiB moved<extra></extra>"},
        ],
        "layout": {"xaxis": {"title": {"text": "HBM, MiB"}}, "yaxis": {"title": {"text": "times as long as with enough"}, "rangemode": "tozero"},
                   "yaxis2": {"overlaying": "y", "side": "right", "title": {"text": "MiB"}, "rangemode": "tozero", "showgrid": False}},
        "note": "By replay, greedy schedules; modelled.",
    }
