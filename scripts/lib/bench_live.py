"""scripts/bench live JOB: the job itself under hbmspill in virtual time, a byte standing for many (modelled).

The job runs twice on the synthetic GPU: as XLA runs it by default (graphs, its own allocator) in memory enough, and under hbmspill in
memory too small. A step's time is by the device's clock. The bound is computed from the device's record of the job. Both must
end with the same state, bit for bit. Frames are the device's, 2 MiB, which stand for far more than on a real one, so
memory is coarser than it would be. Exit: 0; 1 where a run failed, states differ, or an efficiency is above 1.01.
"""

import argparse
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import figures  # noqa: E402
import recording  # noqa: E402
import rows  # noqa: E402
import runs  # noqa: E402

MIB = 1 << 20
FRAME = 2 * MIB
RESERVE = 16 * MIB  # of device memory beside what hbmspill may use: modules


def parse_arguments():
    parser = argparse.ArgumentParser(prog="bench live", description=__doc__.splitlines()[0])
    parser.add_argument("job", choices=recording.JOBS)
    parser.add_argument("--ratio", type=float, default=1.25, help="live bytes over HBM")
    parser.add_argument("--transfer", type=float, default=0.5, help="(live - HBM) / rate over compute time")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--first", type=int, default=12, help="the first step that counts")
    parser.add_argument("--slots", type=int, help="moments of a round that the bound looks at, at most; default: as bench jobs")
    parser.add_argument("--rounds", type=int, default=8, help="recorded for the bound")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.ratio < 1:
        parser.error("--ratio: from 1 on")
    if not 3 <= options.first < options.steps:
        parser.error("--first: from 3 on, and below --steps")
    return options


def run(options, machine, what, hbm, shim, env):
    """(the run, seconds of each step that counts, and of each from the third on)."""
    virtual = {
        "SYNTHETIC_GPU_CLOCK": "1",
        "SYNTHETIC_GPU_SIZE_SCALE": str(machine.job.scale),
        "SYNTHETIC_GPU_LINK": ",".join(f"{rate / 1e9!r}" for rate in machine.rates),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    name = f"live-{options.job}-{what}"
    stamps = os.path.join(recording.DIRECTORY, f"{name}.stamps")
    program = os.path.join(runs.TOP, "tests", "jobs", "stamped.py")
    runs.say(f"{options.job}, {what}: {options.steps} steps")
    done = runs.run(
        name,
        [runs.PYTHON, program, options.job, stamps, "--steps", str(options.steps), "--json", "{json}"],
        recording.DIRECTORY,
        device="synthetic",
        hbm=hbm,
        shim=shim,
        env={**virtual, **env},
        limit=900,
    )
    if done.status != 0 or "modelled" not in done.report:
        raise recording.Failed(f"{options.job} ended with {done.status}:\n{done.tail()}")
    with open(stamps) as file:
        took = [milliseconds * 1e-3 for milliseconds in json.load(file)]
    # The first stamp is the first step's: what lies ahead of the n-th is the end of the step two before.
    return done, took[options.first - 1 :], took[2:]


def measure(options):
    job = rows.Job(recording.record(options.job, options.rounds, rows.live_bytes))
    machine = rows.Machine(job, options.ratio, options.transfer)
    hbm = int(machine.hbm / job.scale) // FRAME * FRAME
    least = rows.bound_of(machine, options.slots).get("bound_seconds")
    plain, plain_steps, _ = run(options, machine, "plain", recording.MEMORY, False, {})
    small = {"HBMSPILL_HBM_LIMIT": str(hbm), "HBMSPILL_MIN_SIZE": "16K"}
    spilled, steps, all_steps = run(options, machine, "spilled", hbm + RESERVE, True, small)
    took, alone = statistics.fmean(steps), statistics.fmean(plain_steps)
    calls = {name: ns * 1e-9 for name, ns in spilled.report["modelled"]["host_ns_in"].items()}
    return {
        "modelled": True,
        "machine": rows.file_hash(rows.MACHINE),
        "job": job.name,
        "ratio": options.ratio,
        "transfer": options.transfer,
        "link": "scaled",
        "live_bytes": job.live,
        "hbm_bytes": hbm * job.scale,
        "compute_seconds": job.compute,
        "bound": least,
        "round_seconds": took,
        "plain_seconds": alone,
        "slowdown": took / alone,
        "efficiency": least / took if least else None,
        "slowdown_from_third": statistics.fmean(all_steps) / alone,
        "steps_seconds": all_steps,
        "in_bytes": spilled.stats.get("bytes_in", 0) * job.scale,
        "out_bytes": spilled.stats.get("bytes_out", 0) * job.scale,
        "host_seconds_in": dict(sorted(calls.items(), key=lambda call: -call[1])),
        "identical": plain.result["state_sha256"] == spilled.result["state_sha256"]
        and plain.result["losses_exact"] == spilled.result["losses_exact"],
    }


def main():
    options = parse_arguments()
    try:
        row = measure(options)
    except recording.Failed as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    gib = 1 << 30
    dearest = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in list(row["host_seconds_in"].items())[:4])
    each = " ".join(f"{seconds * 1e3:.1f}" for seconds in row["steps_seconds"])
    print(
        f"{row['job']} (modelled; model/machine.h {row['machine']}): live {row['live_bytes'] / gib:.1f} GiB "
        f"in {row['hbm_bytes'] / gib:.1f} GiB\n"
        f"  a step without hbmspill in memory enough   {row['plain_seconds'] * 1e3:9.3f} ms\n"
        f"  its kernels                                {row['compute_seconds'] * 1e3:9.3f} ms\n"
        f"  the fluid bound                            {figures.number(row['bound'] and row['bound'] * 1e3):>9} ms\n"
        f"  a step with hbmspill                       {row['round_seconds'] * 1e3:9.3f} ms, {row['slowdown']:.3f} times, "
        f"efficiency {figures.number(row['efficiency'])}\n"
        f"  steps from the third on (mean {row['slowdown_from_third']:.3f} times), ms: {each}\n"
        f"  the host's time in calls, in all: {dearest}\n"
        f"  moved in all: {row['in_bytes'] / gib:.2f} GiB in, {row['out_bytes'] / gib:.2f} GiB out; "
        f"state {'identical' if row['identical'] else 'DIFFERS'}"
    )
    if options.json:
        rows.write_json(options.json, row)
    wrong = row["efficiency"] is not None and row["efficiency"] > figures.MOST_EFFICIENT
    if wrong:
        print(f"FAIL: efficiency is above {figures.MOST_EFFICIENT}")
    return 0 if row["identical"] and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
