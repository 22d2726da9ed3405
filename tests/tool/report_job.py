"""What the tests of hbmspill report share: a job as it would have written it, and the tool as a user runs it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

TOOL = os.path.abspath("tool/hbmspill")
REPLAY = os.path.abspath("cache/tools/hbmspill-replay")
MIB = 2**20

STATISTICS = {
    "version": 1, "mode": "on", "launches": 351, "copies": 10, "open_launches": 3, "managed_allocations": 20, "passed_allocations": 2, "peak_hbm_bytes": 60 * MIB,
    "peak_spilled_bytes": 126 * MIB, "bytes_in": 680 * MIB, "bytes_out": 746 * MIB, "stalled_seconds": 0.31, "refused": 0, "peak_host_bytes": 99 * MIB, "linked_operations": 0,
    "planned_operations": 100, "rounds_found": 1,
    "devices": [{"device": 0, "hbm_limit": 16 * MIB, "host_limit": 100 * MIB, "outside_bytes": MIB, "link_measured": True, "link_in_bytes_per_second": 8e9, "link_out_bytes_per_second": 8e9}],
    "dearest": [
        {"device": 0, "size": 4 * MIB, "moves_in": 9, "moves_out": 9, "moved_in_bytes": 36 * MIB, "moved_out_bytes": 36 * MIB, "returns": 9, "reuse_distance": 11, "transfer_seconds": 0.02,
         "away_seconds": 0.01, "paid": paid, "site": ["allocator", "xla::<Run>", frame]} for paid, frame in ((False, "train"), (True, "load"))
    ],
}


def find_python():
    """The build's virtual environment, or $PYTHON; exits as a test that was skipped where neither has what is needed."""
    for candidate in (os.path.abspath("venv/bin/python3"), shutil.which(os.environ.get("PYTHON", "python3")) or ""):
        if os.path.exists(candidate) and not subprocess.run([candidate, "-c", "import plotly, matplotlib, scipy"], capture_output=True, check=False).returncode:
            return candidate
    print("no python3 with plotly, matplotlib and scipy: scripts/setup installs them")
    sys.exit(77)


PYTHON = find_python()


def run(directory, *command, status=0, err="", **variables):
    """The standard output; the status and the error text (a pattern) must be these."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HBMSPILL", "LD_PRELOAD", "PYTHONPATH"))}
    clean |= {"PATH": f"{os.path.dirname(PYTHON)}:{os.environ['PATH']}"} | variables
    done = subprocess.run(list(map(str, command)), env=clean, text=True, capture_output=True, timeout=300, cwd=directory, check=False)
    text = f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.returncode == status, text
    assert re.fullmatch(err, done.stderr.strip(), re.S), text
    return done.stdout


def turns(directory, rounds=6):
    """A trace: three buffers of 8 MiB take turns, 4 ms each; in 16 MiB one of them is always on its way."""
    lines = [f"a {i} {8 * MIB}" for i in range(3)]
    for _ in range(rounds):
        lines += [f"l 0 {i} 4000000 {i}" for i in range(3)] + ["s 0"]
    names = [f'n {i} turn "{i}" </script>' for i in range(3)]
    path = pathlib.Path(directory, "turns.trace")
    path.write_text("\n".join(["hbmspill-trace 1", *names, *lines, f"e {len(lines)}"]) + "\n", encoding="ascii")
    return path
