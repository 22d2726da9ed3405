"""Runs a JAX program as a process: on the CPU, on the synthetic GPU, on a real GPU; with the shim or without.

A Run says what the process left behind: exit status, output, the program's own JSON, the synthetic GPU's
report and the shim's statistics. Sizes are bytes, times seconds.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, "build")
PYTHON = os.environ.get("JOBS_PYTHON") or os.path.join(BUILD, "venv", "bin", "python")  # another release of JAX, say
GPU_PYTHON = os.path.join(BUILD, "venv-gpu", "bin", "python")
SHIM = os.path.join(BUILD, ".libs", "libhbmspill.so")
SYNTHETIC = os.path.join(TOP, "scripts", "with-synthetic-gpu")

PAGE = 2 << 20  # what the device's memory is given out in

# What would make two runs differ, or a reference run not a reference. Names and prefixes of the environment.
_CLEARED = ("HBMSPILL", "SYNTHETIC_GPU_", "XLA_", "JAX_", "TF_", "CUDA_", "LD_PRELOAD", "PYTHONPATH")

# Whatever was compiled is kept, however small and quickly; without files of XLA's own, whose directory it would be told.
_KEEP_COMPILED = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
}

_BEGIN = time.monotonic()


def say(text):
    """A progress line with the time since the start."""
    bold, plain = ("\x1b[1m", "\x1b[0m") if colour() else ("", "")
    print(f"{bold}[{time.monotonic() - _BEGIN:4.0f} s]{plain} {text}", flush=True)


def started_at(seconds_ago):
    """Lets the times of say() go on from where another script's are."""
    global _BEGIN
    _BEGIN = time.monotonic() - seconds_ago


def colour():
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


@dataclasses.dataclass
class Run:
    status: int  # exit status; negative: the signal that ended it; None: stopped after the time limit
    seconds: float
    output: str  # standard output and standard error together
    result: dict  # what the program wrote with --json, or {}
    report: dict  # the synthetic GPU's report, or {}
    stats: dict  # the shim's statistics, or {}

    def tail(self, lines=15):
        return "\n".join("    " + line for line in self.output.splitlines()[-lines:])


def _read(path):
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def run(name, command, directory, *, device, hbm=None, schedule=None, shim=False, env=None, limit=900, progress=False, compiled=None):
    """Runs command and waits for it.

    name       names its files in directory: NAME.log, NAME.json (for {json} in command), ...
    device     "cpu", "synthetic" or "gpu"
    hbm        memory of the synthetic GPU in bytes
    schedule   of the synthetic GPU: eager, lazy, random:SEED
    shim       True: LD_PRELOAD and a file for its statistics
    env        set on top of a cleaned environment
    progress   True: shows a line of the program's output every few seconds
    compiled   directory where JAX keeps what it has compiled, for runs that compile the same: its key has the program, XLA's
               flags and the memory that XLA was told of. The one who runs them empties it before.
    """
    os.makedirs(directory, exist_ok=True)
    files = {what: os.path.join(directory, f"{name}.{what}") for what in ("log", "json", "report", "stats")}
    for path in files.values():
        if os.path.exists(path):
            os.remove(path)

    environment = {k: v for k, v in os.environ.items() if not k.startswith(_CLEARED)}
    environment["XDG_CACHE_HOME"] = os.path.join(directory, "cache")  # plans are not the user's
    settings = dict(env or {})
    if compiled:
        environment |= {"JAX_COMPILATION_CACHE_DIR": compiled, **_KEEP_COMPILED}
    if shim:
        settings["LD_PRELOAD"] = SHIM
        settings.setdefault("HBMSPILL_STATS", files["stats"])
        settings.setdefault("HBMSPILL_CONFIG", "none")
    command = [part.replace("{json}", files["json"]) for part in command]
    if device == "cpu":
        environment["JAX_PLATFORMS"] = "cpu"
    # The preload and its settings are the program's alone; what the synthetic GPU adds to (XLA_FLAGS) is set before.
    inner = {k: v for k, v in settings.items() if k.startswith(("LD_PRELOAD", "HBMSPILL"))}
    environment.update((k, v) for k, v in settings.items() if k not in inner)
    command = ["env", *(f"{k}={v}" for k, v in inner.items()), *command]
    if device == "synthetic":
        options = ["--report", files["report"]]
        options += ["--hbm", str(hbm)] if hbm else []
        options += ["--schedule", schedule] if schedule else []
        command = [SYNTHETIC, *options, "--", *command]

    begin = time.monotonic()
    shown = [begin]
    lines = []
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=TOP,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # so that a stopped run takes its children along
    )

    def read():
        with open(files["log"], "w") as log:
            for line in process.stdout:
                log.write(line)
                log.flush()
                lines.append(line)
                if progress and line.startswith("step") and time.monotonic() - shown[0] > 5:
                    shown[0] = time.monotonic()
                    say("    " + line.rstrip())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        status = process.wait(limit)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    reader.join(5)
    seconds = time.monotonic() - begin
    if status is None:
        lines.append(f"stopped after {limit} s\n")
    return Run(
        status, seconds, "".join(lines), _read(files["json"]), _read(files["report"]), _read(files["stats"])
    )


def disagreements(run, hbm):
    """Where the shim's counters are not what the synthetic GPU counted itself, as texts. hbm: its capacity in bytes."""
    report, stats = run.report, run.stats
    if not report:
        return ["no report of the synthetic GPU"]
    if not stats:
        return ["no statistics of the shim"]
    found = []

    def agree(what, device, shim):
        if device != shim:
            found.append(f"{what}: the synthetic GPU counted {device}, the shim {shim}")

    peak = report["peak_device_bytes"]
    if peak > hbm:
        found.append(f"the synthetic GPU held {peak} bytes, more than its {hbm}")
    # Variables of modules are the driver's: no call asks for them, so the shim leaves room and cannot count them.
    pages = -(-report["peak_driver_bytes"] // PAGE) * PAGE
    if not 0 <= peak - stats["peak_hbm_bytes"] <= pages:
        agree(f"peak device bytes, of which up to {pages} are the driver's own", peak, stats["peak_hbm_bytes"])
    moved = {
        "h2d_bytes": ("bytes_in", "measured_bytes_in"),
        "d2h_bytes": ("bytes_out", "measured_bytes_out", "verified_bytes"),
    }
    whole = report["calls"].get("cuGraphLaunch", 0)  # copies in a graph that goes as a whole are the driver's to make
    for kind in ("h2d_bytes", "d2h_bytes", "d2d_bytes", "h2h_bytes"):
        seen = stats[kind] + sum(stats[name] for name in moved.get(kind, ()))
        agree(kind, report[kind], max(seen, report[kind]) if whole and kind == "d2d_bytes" else seen)
    for what in ("pinned_bytes", "peak_pinned_bytes"):
        agree(what, report[what], stats[what])
    # Of these a job with JAX's allocator has none of its own.
    handles = stats["held_frames"] + stats["held_host_handles"]
    agree("handles at exit", report["held"]["held_handles"], handles)
    for what in ("mappings", "reservations"):
        agree(f"{what} at exit", report["held"][f"held_{what}"], stats[f"held_{what}"])
    lost = {name: n for name, n in stats.items() if name.startswith("lost_") and n}
    if lost or stats["records_wrong"] or stats["operations_unended"]:
        found.append(
            f"at exit the shim had lost {lost or 'nothing'}, {stats['operations_unended']} operations had not ended, "
            f"{stats['records_wrong']} records were wrong"
        )
    if report["hazards"]:
        found.append(f"the synthetic GPU saw {len(report['hazards'])} hazard(s): {report['hazards'][:3]}")
    return found
