"""hbmspill plot: which size of HBM would be enough for a trace, as text and drawn.

hbmspill(1) starts it as it does report.py. Exit: 0; 1 a file cannot be used, or a package is missing; 2 wrong usage.
"""

import argparse
import math
import os
import pathlib
import sys

import report
import report_files
import reuse
from report_charts import BLUE, GREEN, MIB, ORANGE, PURPLE
from units import size

SIZES = 12  # in the table, and of a sweep
BINS = 48
CURVE = 240  # points
ENDINGS = (".svg", ".png", ".html")


def say_and_exit(text, status=1):
    print(f"hbmspill: plot: {text}", file=sys.stderr)
    sys.exit(status)


def steps(found, low, high, count):
    """(HBM, share of the bytes touched that LRU would miss), HBM from low to high."""
    distances, index, missed = found.distances, 0, sum(bytes_ for _, bytes_ in found.distances)
    for i in range(count):
        hbm = low + (high - low) * i / (count - 1)
        while index < len(distances) and distances[index][0] <= hbm:
            missed -= distances[index][1]
            index += 1
        yield hbm, missed / found.touched if found.touched else 0, missed


def histogram(found):
    """[(from, to, bytes)]: bytes touched by reuse distance, in bins of equal width on a logarithmic scale."""
    if not found.distances:
        return []
    low, high = math.log2(found.distances[0][0] or 1), math.log2(found.distances[-1][0] or 1)
    width = max((high - low) / BINS, 1e-9)
    bins = [0] * BINS
    for distance, bytes_ in found.distances:
        bins[min(int((math.log2(distance or 1) - low) / width), BINS - 1)] += bytes_
    return [(2 ** (low + i * width), 2 ** (low + (i + 1) * width), value) for i, value in enumerate(bins)]


def draw_file(path, bins, curve, sweep, found, live, name):
    try:
        import matplotlib
    except ImportError:
        say_and_exit(f"it draws {path.suffix} with matplotlib, which {sys.executable} does not have: python3 -m pip install matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "svg.hashsalt": "hbmspill", "font.size": 10})
    figure, panels = pyplot.subplots(2 + bool(sweep), 1, figsize=(8, 3.2 * (2 + bool(sweep))), layout="constrained")
    figure.suptitle(name)
    panels[0].bar([low / MIB for low, _, _ in bins], [value / MIB for _, _, value in bins], width=[(high - low) / MIB for low, high, _ in bins], align="edge", color=BLUE)
    panels[0].set(xscale="log", xlabel="reuse distance, MiB", ylabel="MiB touched", title="Bytes touched again, by reuse distance")
    panels[1].step([hbm / MIB for hbm, _, _ in curve], [100 * ratio for _, ratio, _ in curve], where="post", color=BLUE, label="LRU")
    panels[1].axvline(found.enough / MIB, color=ORANGE, linestyle="--", label=f"LRU misses nothing: {size(found.enough)}")
    panels[1].axvline(live / MIB, color=GREEN, linestyle=":", label=f"live at once: {size(live)}")
    panels[1].set(xlabel="HBM, MiB", ylabel="missed, % of bytes touched", title="Misses against the size of HBM", ylim=(0, None))
    panels[1].legend(frameon=False)
    if sweep:
        panels[2].plot([row["hbm_bytes"] / MIB for row in sweep], [row["slowdown"] for row in sweep], "o-", color=PURPLE)
        panels[2].set(xlabel="HBM, MiB", ylabel="times as long", title="A round by replay with hbmspill, against enough HBM (modelled)", ylim=(0, None))
    try:
        figure.savefig(path, dpi=144, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        say_and_exit(f"{path}: {error.strerror}")


def draw_page(path, bins, curve, sweep, found, live, name, words):
    import report_charts
    from report_page import page

    library = report.plotly_js()
    figures = [
        {"id": "reuse", "title": "Bytes touched again, by reuse distance", "height": 330, "note": "A touch at a distance of N needs N bytes of HBM to find its allocation there under LRU.",
         "data": [{"type": "bar", "x": [low / MIB for low, _, _ in bins], "y": [value / MIB for _, _, value in bins], "width": [(high - low) / MIB for low, high, _ in bins], "offset": 0,
                   "marker": {"color": BLUE}, "hovertemplate": "from %{x:,.1f} MiB: %{y:,.1f} MiB<extra></extra>"}],
         "layout": {"xaxis": {"type": "log", "title": {"text": "reuse distance, MiB"}}, "yaxis": {"title": {"text": "MiB touched"}}}},
        {"id": "misses", "title": "Misses against the size of HBM", "height": 360, "note": f"LRU misses nothing from {size(found.enough)} on; {size(live)} are live at once.",
         "data": [{"type": "scatter", "mode": "lines", "x": [hbm / MIB for hbm, _, _ in curve], "y": [100 * ratio for _, ratio, _ in curve], "name": "LRU", "line": {"color": BLUE, "width": 2.5, "shape": "hv"}},
                  {"type": "scatter", "mode": "lines", "x": [live / MIB] * 2, "y": [0, 100 * curve[0][1]], "name": "live at once", "line": {"color": GREEN, "dash": "dot", "width": 2}}],
         "layout": {"xaxis": {"title": {"text": "HBM, MiB"}}, "yaxis": {"title": {"text": "missed, % of bytes touched"}, "rangemode": "tozero"}}},
        report_charts.sizes(sweep),
    ]
    cards = [(size(live), "live at once"), (size(found.enough), "LRU misses nothing from here on"), (size(found.touched), "touched")]
    try:
        path.write_text(page("hbmspill plot", name, [figure for figure in figures if figure], cards, [("good", line) for line in words], "", library), encoding="utf-8")
    except OSError as error:
        say_and_exit(f"{path}: {error.strerror}")


def main():
    parser = argparse.ArgumentParser(prog="hbmspill plot", add_help=False)
    parser.add_argument("--replay", default="hbmspill-replay")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("--link")
    parser.add_argument("trace")
    options = parser.parse_args()
    if options.output and options.output.suffix not in ENDINGS:
        parser.error(f"{options.output}: it draws files that end in {', '.join(ENDINGS)}")
    if report_files.kind_of(options.trace) != "trace":
        say_and_exit(f"{options.trace} is no trace (HBMSPILL_TRACE)")
    about = report.replay(options.replay, options.trace, "1x", options.link or "pcie5")
    rounds, live, largest = about["rounds"], about["live_bytes"], about["largest_operation_bytes"]
    found = reuse.of_trace(options.trace, about["launches"] - (rounds - 2) * about["period"] if rounds else 0)
    counted = max(rounds - 2, 1)
    low, high = min(largest, found.enough), max(found.enough, live) * 1.05
    curve = list(steps(found, low, high, CURVE))
    name = os.path.basename(options.trace)
    words = [f"{name}: {rounds} rounds of {about['period']} launches" if rounds else f"{name}: no rounds that repeat; all of it counts",
             f"live at once {size(live)}, one operation touches up to {size(largest)}",
             f"{size(found.enough)} of HBM would be enough for LRU to miss nothing; {size(live)} for any schedule to move nothing"]
    sweep = []
    if options.link:
        step = (high - low * 1.1) / (SIZES - 1)
        sweep = [row for row in report.replay(options.replay, options.trace, f"{low * 1.1:.0f}:{high:.0f}:{max(step, 1):.0f}", options.link)["rows"] if row["fits"]]
    print(*words, sep="\n")
    print(f"{'HBM':>12} {'missed':>9} {'comes back' + (' a round' if rounds else ''):>20}   (least recently used)")
    for hbm, ratio, missed in steps(found, low, high, SIZES):
        print(f"{size(hbm):>12} {100 * ratio:8.1f}% {size(missed / counted):>20}")
    if sweep:
        print(f"{'HBM':>12} {'slowdown':>9} {'moved a round':>20}   (hbmspill, by replay; modelled)")
        for row in sweep:
            print(f"{size(row['hbm_bytes']):>12} {row['slowdown']:9.2f} {size(row['in_bytes'] + row['out_bytes']):>20}")
    if options.output:
        bins = histogram(found)
        if options.output.suffix == ".html":
            draw_page(options.output, bins, curve, sweep, found, live, name, words)
        else:
            draw_file(options.output, bins, curve, sweep, found, live, name)


if __name__ == "__main__":
    try:
        main()
    except report_files.Unreadable as problem:
        say_and_exit(str(problem))
    except KeyboardInterrupt:
        sys.exit(130)
