"""hbmspill report: one page from what a job has written.

hbmspill(1) starts it, with --replay and the path of hbmspill-replay ahead of its user's own arguments, and has the help. Exit: 0; 1 a
file cannot be read or written, or a package is missing; 2 wrong usage.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import report_advice
import report_charts
import report_files
import timed_trace
from units import parse_size, seconds, size

BOUND_SECONDS = 120  # the bound is left out where it takes longer
REPLAY_SECONDS = 300
SWEEP = 8  # sizes of HBM
QUIET_SECONDS = 2  # what takes longer says so


def say(text):
    print(f"hbmspill: report: {text}", file=sys.stderr)


def fail(text, status=1):
    say(text)
    sys.exit(status)


def plotly_js():
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        fail(f"it draws with plotly, which {os.path.basename(sys.executable)} ({sys.executable}) does not have: python3 -m pip install plotly")
    return get_plotlyjs()


class Progress:
    """Says what is being done where that takes longer than two seconds, on a terminal."""

    def __init__(self):
        self.begun = time.monotonic()

    def step(self, text):
        if sys.stderr.isatty() and time.monotonic() - self.begun > QUIET_SECONDS:
            say(text + " ...")


def replay(program, trace, hbm, link, arguments=()):
    """hbmspill-replay's JSON; None where the job does not fit."""
    command = [program, trace, "--hbm", hbm, "--link", link, "--json", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=REPLAY_SECONDS, check=False)
    except OSError as error:
        fail(f"{program}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return None
    if done.returncode not in (0, 3):
        fail(done.stderr.strip().removeprefix("hbmspill-replay: ") or f"hbmspill-replay ended with {done.returncode}")
    return json.loads(done.stdout)


def bound_of(trace, hbm, link):
    """scripts/bound's JSON, or why there is none."""
    here = pathlib.Path(__file__).resolve().parent
    program = next((path for path in (here / "bound", here.parent / "bound") if path.is_file()), None)
    if not program:
        return None, "the program for it is not installed"
    try:
        done = subprocess.run([sys.executable, program, trace, "--hbm", hbm, "--link", link, "--json"], capture_output=True, text=True, timeout=BOUND_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None, f"it was not found within {BOUND_SECONDS} s"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        return None, "python3 has no scipy (python3 -m pip install scipy)" if "scipy" in last or "numpy" in last else last
    return json.loads(done.stdout), None


def machine(options, stats):
    """(HBM, link) to replay for, as texts: what was asked for, or what the job had."""
    device = (stats.get("devices") or [{}])[0] if stats else {}
    hbm, link = options.hbm, options.link
    if not hbm and device.get("hbm_limit"):
        hbm = str(device["hbm_limit"])
    if not link and device.get("link_measured"):
        link = f"{device['link_in_bytes_per_second'] * 1e-9:.4f},{device['link_out_bytes_per_second'] * 1e-9:.4f}"
    return hbm, link or "pcie5"


def cards_of(stats, result, bound):
    cards = []
    if stats:
        device = (stats.get("devices") or [{}])[0]
        cards += [(size(device.get("hbm_limit", stats["peak_hbm_bytes"])), "HBM to use"), (size(stats["peak_spilled_bytes"]), "most that lived in host memory only"),
                  (size(stats["bytes_in"]), "came in"), (size(stats["bytes_out"]), "went out"), (seconds(stats.get("stalled_seconds", 0)), "streams stood still")]
    if result:
        row = result["rows"][0]
        if not stats:
            cards.append((size(row["hbm_bytes"]), "HBM, replayed"))
        cards.append((size(result["live_bytes"]), "live at once"))
        if row["fits"]:
            cards.append((f"{row['slowdown']:.2f} x", "as long as with enough HBM (modelled)"))
        if bound and row["fits"]:
            cards.append((f"{bound['bound_seconds'] / row['round_seconds']:.2f}", "of the bound (modelled)"))
    return cards


def arguments():
    parser = argparse.ArgumentParser(prog="hbmspill report", add_help=False)
    parser.add_argument("--replay", default="hbmspill-replay")
    parser.add_argument("-o", "--output", default="report.html")
    parser.add_argument("--hbm")
    parser.add_argument("--link")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    if options.hbm:
        try:
            parse_size(options.hbm)
        except (KeyError, ValueError):
            parser.error(f"--hbm {options.hbm}: it takes a size (12G, 512MiB)")
    return options


def of_trace(options, trace, stats, own, progress):
    """What replay says, with the times of kernels of the job's own events where there are: as replayed."""
    if own:
        replay(options.replay, trace, "1x", "pcie5")  # ends here where the trace is damaged
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, os.path.basename(trace))
        timed, launches = timed_trace.write(trace, own, path) if own else (0, 0)
        found = replayed(options, path if timed else trace, stats, directory, progress)
    if timed:
        text = f"Kernels take as long in the replay as in the job's events ({timed:,} of {launches:,} launches; the median of those of a name)."
        found[3].append(("good", text))
    return found


def replayed(options, trace, stats, directory, progress):
    """(replay's JSON, its events, the bound, lines of advice, rows of a sweep)."""
    hbm, link = machine(options, stats)
    if not hbm:
        result = replay(options.replay, trace, "1x", link)
        hbm = str(int(result["live_bytes"] / 1.25))
        words = [("advice", f"How much HBM there is was not said (--hbm, or statistics of the job): replayed with {size(float(hbm))}, 1/1.25 of what is live at once.")]
    else:
        words = []
        hbm = str(int(parse_size(hbm)))
    progress.step("replaying the trace")
    path = os.path.join(directory, "events of the replay")
    result = replay(options.replay, trace, hbm, link, ["--events", path])
    if result is None:
        return None, None, None, [*words, ("warning", f"The replay was not done within {REPLAY_SECONDS} s.")], []
    events = report_files.events(path) if os.path.exists(path) and result["rows"][0]["fits"] else None
    progress.step("reckoning the bound")
    bound, why = bound_of(trace, hbm, link) if result["rounds"] and result["rows"][0]["fits"] else (None, "there are no rounds that repeat")
    progress.step("replaying other sizes of HBM")
    low, high = max(result["largest_operation_bytes"] * 1.1, result["live_bytes"] / 2), result["live_bytes"] * 1.1
    sweep = replay(options.replay, trace, f"{low:.0f}:{high:.0f}:{(high - low) / (SWEEP - 1):.0f}", link) if high > low else None
    words += report_advice.of_replay(result, bound)
    if not bound:
        words.append(("advice", f"There is no bound beside the times: {why}."))
    return result, events, bound, words, sweep["rows"] if sweep else []


def main():
    options, progress = arguments(), Progress()
    given = {}
    for path in options.files:
        kind = report_files.kind_of(path)
        if kind in given:
            fail(f"{path}: there is {given[kind]} of the same kind ({kind}) already", 2)
        given[kind] = path
    library = plotly_js() if "trace" in given or "events" in given else ""
    from report_page import counters, dearest, page  # behind the look for plotly, which says what is missing

    stats = report_files.statistics(given["statistics"]) if "statistics" in given else None
    own = report_files.events(given["events"]) if "events" in given else None
    result = modelled = bound = None
    words, sweep, extra = [], [], ""
    if stats:
        words += report_advice.of_statistics(stats)
        extra = dearest(stats.get("dearest", ())) + counters(stats)
    if "trace" in given:
        result, modelled, bound, more, sweep = of_trace(options, given["trace"], stats, own, progress)
        words += more
    events = own or modelled
    figures = []
    if events:
        figures += [report_charts.lanes(events, result["period"] if result else 0), *report_charts.residency(events)]
        if own:
            words += report_advice.of_events(own)
        if events.apart:
            words.append(("advice", f"{events.apart:,} events that only the host timed are left out: the device's clock does not go with the host's."))
        if events.cut:
            words.append(("advice", f"{events.path} had grown to its limit: what came later is not in it."))
        if events is modelled:
            words.append(("advice", "Lanes and residency are a replay's (modelled). HBMSPILL_TRACE_EVENTS has the job write down its own."))
    if result and result["rows"][0]["fits"]:
        measured = report_charts.measured_round(own, result["period"]) if own else None
        figures.append(report_charts.rounds(result, bound and bound["bound_seconds"], measured))
    figures.append(report_charts.sizes(sweep))
    text = page("hbmspill report", ", ".join(map(os.path.basename, options.files)), [figure for figure in figures if figure], cards_of(stats, result, bound), words, extra, library)
    try:
        pathlib.Path(options.output).write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{options.output}: {error.strerror}")
    print(f"{options.output}: {size(len(text))}; open it in a browser")
    for level, line in words:
        print(f"{ {'good': ' ', 'advice': '>', 'warning': '!'}[level] } {line}")


if __name__ == "__main__":
    try:
        main()
    except report_files.Unreadable as problem:
        fail(str(problem))
    except KeyboardInterrupt:
        sys.exit(130)
