"""scripts/bench hook: what a launch costs the host when there is nothing to move. Real time of this machine, medians.

With 100,000 allocations alive: the cache's share on a fake device (tests/unit/bench_hook.c), and the whole hook under LD_PRELOAD
with a driver that does next to nothing (tests/loader/), whose own cost is taken off. Each program runs a few times; the least
median counts, since other work on the machine only adds. Exit: 0, also where a figure is not reached; 1 where a program failed.
"""

import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rows  # noqa: E402
import runs  # noqa: E402

BASE, POINTER = 250, 40  # nanoseconds: what is to be reached
MODES = {"round": "among 1000 allocations", "all": "among all 100,000"}


def medians(program, environment, times):
    """{(mode, pointers): least median in ns} over so many runs."""
    least = {}
    for _ in range(times):
        done = subprocess.run(
            [os.path.join(runs.BUILD, program)],
            env={k: v for k, v in os.environ.items() if not k.startswith(("HBMSPILL", "LD_"))} | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [line.split() for line in done.stdout.splitlines()]
        if done.returncode or not lines:
            raise SystemExit(f"bench: {program} ended with {done.returncode}: {done.stderr.strip()}")
        for _, mode, count, nanoseconds in lines:
            key = mode, int(count)
            least[key] = min(least.get(key, float("inf")), float(nanoseconds))
    return least


def main():
    parser = argparse.ArgumentParser(prog="bench hook", description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--times", type=int, default=5, help="runs of each program")
    options = parser.parse_args()
    programs = ["tests/unit/bench_hook", "tests/loader/bench_launch"]
    library = "tests/loader/bench/libcuda.la"
    subprocess.run(["make", "-s", "-C", runs.BUILD, "libhbmspill.la", library, *programs], check=True, stdout=sys.stderr)
    driver = {"LD_LIBRARY_PATH": os.path.join(runs.BUILD, "tests/loader/bench/.libs")}
    shim = {"LD_PRELOAD": runs.SHIM, "HBMSPILL_CLOSED": "all"}
    cache = medians(programs[0], {}, options.times)
    bare = medians(programs[1], driver, options.times)
    hooked = medians(programs[1], driver | shim, options.times)

    found, wrong = [], 0
    print(f"{'pointers':>8} {'to reach':>8}" + "".join(f"  {text:>24}: {'cache':>5} {'hook':>5}" for text in MODES.values()))
    for count in sorted({count for _, count in hooked}):
        target = BASE + POINTER * count
        line = f"{count:8} {target:8}"
        for mode in MODES:
            whole = hooked[mode, count] - bare[mode, count]
            # A launch without a pointer does not reach the cache.
            found.append({"pointers": count, "mode": mode, "cache_ns": cache[mode, count], "hook_ns": whole, "target_ns": target})
            wrong += whole > target
            line += f"  {'':24}  {cache[mode, count]:5.0f} {whole:5.0f}{'*' if whole > target else ' '}"
        print(line.rstrip())
    print(f"{wrong} of {len(found)} fall short (*) of {BASE} ns and {POINTER} ns a pointer")
    if options.json:
        rows.write_json(options.json, {"modelled": False, "rows": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
