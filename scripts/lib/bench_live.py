"""scripts/bench live JOB: the job itself under hbmspill on the synthetic GPU's virtual clock, a byte standing for many (modelled).

A step's time is the difference of two runs of unlike length, without the first steps; so is that of the same job without
hbmspill, as XLA runs it by default (graphs, its own allocator) in memory enough. The bound is computed from the device's record.
Both must end with the same state, bit for bit. Frames are those of the device, 2 MiB, so they stand for far more than on a
real one, and memory is coarser. Exit: 0; 1 where a run failed, states differ, or an efficiency is above 1.01.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import figures  # noqa: E402
import recording  # noqa: E402
import rows  # noqa: E402
import runs  # noqa: E402

MIB = 1 << 20
FRAME = 2 * MIB
RESERVE = 16 * MIB  # of device memory beside what hbmspill may use: modules


def steps_of(text):
    first, last = (int(part) for part in text.split(","))
    if not 0 < first < last:
        raise argparse.ArgumentTypeError("two numbers of steps, the larger last")
    return first, last


def parse_arguments():
    parser = argparse.ArgumentParser(prog="bench live", description=__doc__.splitlines()[0])
    parser.add_argument("job", choices=recording.JOBS)
    parser.add_argument("--ratio", type=float, default=1.25, help="live bytes over HBM")
    parser.add_argument("--transfer", type=float, default=0.5, help="(live - HBM) / rate over compute time")
    parser.add_argument("--steps", type=steps_of, default=(12, 16), help="of the two runs, default 12,16")
    parser.add_argument("--slots", type=int, default=128, help="finest runs of launches for the bound")
    parser.add_argument("--rounds", type=int, default=8, help="recorded for the bound")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.ratio < 1:
        parser.error("--ratio: from 1 on")
    return options


def run(options, machine, what, steps, hbm, shim, env):
    rates = machine.rates
    virtual = {
        "SYNTHETIC_GPU_CLOCK": "1",
        "SYNTHETIC_GPU_SIZE_SCALE": str(machine.job.scale),
        "SYNTHETIC_GPU_LINK": ",".join(f"{rate / 1e9!r}" for rate in rates),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    runs.say(f"{options.job}, {what}, {steps} steps")
    done = runs.run(
        f"live-{options.job}-{what}-{steps}",
        [runs.PYTHON, recording.program(options.job), "--steps", str(steps), "--json", "{json}"],
        recording.DIRECTORY,
        device="synthetic",
        hbm=hbm,
        shim=shim,
        env={**virtual, **env},
        limit=900,
    )
    if done.status != 0 or "modelled" not in done.report:
        raise recording.Failed(f"{options.job} ended with {done.status}:\n{done.tail()}")
    return done


def step_seconds(pair, steps):
    first, last = (done.report["modelled"]["makespan_ns"] for done in pair)
    return (last - first) * 1e-9 / (steps[1] - steps[0])


def measure(options):
    job = rows.Job(recording.record(options.job, options.rounds, rows.live_bytes))
    machine = rows.Machine(job, options.ratio, options.transfer)
    hbm = int(machine.hbm / job.scale) // FRAME * FRAME
    least = rows.bound_of(machine, options.slots).get("bound_seconds")
    plain = [run(options, machine, "plain", steps, recording.MEMORY, False, {}) for steps in options.steps]
    small = {"HBMSPILL_HBM_LIMIT": str(hbm), "HBMSPILL_MIN_SIZE": "16K"}
    spilled = [run(options, machine, "spilled", steps, hbm + RESERVE, True, small) for steps in options.steps]
    took, alone = step_seconds(spilled, options.steps), step_seconds(plain, options.steps)

    def each_step(counter):
        first, last = (done.stats.get(counter, 0) for done in spilled)
        return (last - first) * job.scale / (options.steps[1] - options.steps[0])

    first, last = (done.report["modelled"]["host_ns_in"] for done in spilled)
    calls = {name: (last[name] - first.get(name, 0)) * 1e-9 / (options.steps[1] - options.steps[0]) for name in last}
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
        "in_bytes": each_step("bytes_in"),
        "out_bytes": each_step("bytes_out"),
        "evictions": each_step("evictions") / job.scale,
        "host_seconds_in": dict(sorted(calls.items(), key=lambda call: -call[1])),
        "identical": [a.result["state_sha256"] == b.result["state_sha256"] for a, b in zip(plain, spilled)] == [True, True],
    }


def main():
    options = parse_arguments()
    try:
        row = measure(options)
    except recording.Failed as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    gib = 1 << 30
    dearest = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in list(row["host_seconds_in"].items())[:4])
    print(
        f"{row['job']} (modelled; model/machine.h {row['machine']}): live {row['live_bytes'] / gib:.1f} GiB in {row['hbm_bytes'] / gib:.1f} GiB\n"
        f"  a step without hbmspill in memory enough   {row['plain_seconds'] * 1e3:9.3f} ms\n"
        f"  its kernels                                {row['compute_seconds'] * 1e3:9.3f} ms\n"
        f"  the fluid bound                            {figures.number(row['bound'] and row['bound'] * 1e3):>9} ms\n"
        f"  a step with hbmspill                       {row['round_seconds'] * 1e3:9.3f} ms, {row['slowdown']:.3f} times, efficiency "
        f"{figures.number(row['efficiency'])}\n"
        f"  the host's time in calls a step: {dearest}\n"
        f"  moved a step: {row['in_bytes'] / gib:.2f} GiB in, {row['out_bytes'] / gib:.2f} GiB out, {row['evictions']:.0f} evictions; "
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
