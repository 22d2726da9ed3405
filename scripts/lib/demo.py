"""The three runs of scripts/demo, their comparison and the table.

1. memory enough, no shim: the reference, and what the job needs;
2. too little memory, no shim: XLA's RESOURCE_EXHAUSTED;
3. too little memory, the shim preloaded: completes with the same losses and the same final state, bit for bit.

Every claim is a check with a text; what does not hold is listed and the exit status is 1.
"""

import argparse
import json
import os
import subprocess
import sys

import runs
from runs import say

MIB = 1 << 20
OVERSUBSCRIPTION = 1.6
ENOUGH = 4 << 30  # device memory of run 1 on the synthetic GPU
NEED_AT_LEAST = 200 * MIB
JOB = os.path.join(runs.TOP, "scripts", "demo_train.py")


class Checks:
    """What was claimed and whether it held."""

    def __init__(self):
        self.failed = []

    def hold(self, condition, text):
        if not condition:
            self.failed.append(text)
        return bool(condition)


def gpu_memory():
    """(name, total bytes) of the first NVIDIA GPU."""
    line = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()[0]
    name, mib = line.rsplit(",", 1)
    return name.strip(), int(mib) * MIB


def mib(value):
    return "-" if value is None else f"{value / MIB:.1f} MiB"


def same_bits(a, b):
    """The first step whose loss differs, 0 where only the final state does, None where all is the same."""
    for step, (x, y) in enumerate(zip(a["losses_exact"], b["losses_exact"]), 1):
        if x != y:
            return step
    if len(a["losses_exact"]) != len(b["losses_exact"]) or a["state_sha256"] != b["state_sha256"]:
        return 0
    return None


def losses_fall(losses):
    """The mean of the last third is below that of the first; a handful of steps says nothing either way."""
    third = len(losses) // 3
    return len(losses) < 10 or sum(losses[-third:]) / third < sum(losses[:third]) / third


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hbm", type=int)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json")
    parser.add_argument("--gpu", action="store_true", help="on the NVIDIA GPU of this machine")
    parser.add_argument("--started", type=int, default=0)
    options = parser.parse_args()
    runs.started_at(options.started)

    directory = os.path.join(runs.BUILD, "demo")
    os.makedirs(directory, exist_ok=True)
    checks = Checks()
    python = runs.GPU_PYTHON if options.gpu else runs.PYTHON
    command = [python, JOB, "--steps", str(options.steps), "--json", "{json}"]
    device = "gpu" if options.gpu else "synthetic"
    autotuning = os.path.join(directory, "autotuning.txt")

    def train(name, hbm, shim=False, env=None, autotuned=None):
        settings = dict(env or {})
        if options.gpu:
            settings["XLA_FLAGS"] = f"--xla_gpu_deterministic_ops=true {autotuned or ''}".strip()
            hbm = None
        return runs.run(
            name,
            command + ["--hlo", os.path.join(directory, name + ".hlo")],
            directory,
            device=device,
            hbm=hbm,
            shim=shim,
            env=settings,
            progress=True,
        )

    name, total = gpu_memory() if options.gpu else ("synthetic GPU (no NVIDIA GPU here)", ENOUGH)
    say(f"device: {name}")
    say(f"parts: synthetic GPU {'yes' if os.path.exists(runs.SYNTHETIC) else 'NOT BUILT'},"
        f" shim {'yes' if os.path.exists(runs.SHIM) else 'NOT BUILT'}")

    say(f"run 1: {options.steps} steps with memory enough, without hbmspill")
    first = train("1-enough", ENOUGH, autotuned=f"--xla_gpu_dump_autotune_results_to={autotuning}")
    if first.status != 0 or not first.result:
        print(first.tail(30))
        say("run 1 failed: there is nothing to compare with; its log is build/demo/1-enough.log")
        return 1
    need = first.result["memory_stats"].get("peak_bytes_in_use", 0)
    losses = first.result["losses"]
    hbm = options.hbm or int(need / OVERSUBSCRIPTION) // (2 * MIB) * (2 * MIB)
    say(f"  done in {first.seconds:.0f} s: needs {mib(need)}, loss {losses[0]:.3f} to {losses[-1]:.3f}")
    checks.hold(need >= NEED_AT_LEAST, f"the job needs {mib(need)} only, less than {mib(NEED_AT_LEAST)}")
    if not options.hbm:
        checks.hold(need >= OVERSUBSCRIPTION * hbm, f"the job needs less than {OVERSUBSCRIPTION} times the HBM")
    checks.hold(losses_fall(losses), "the losses of run 1 do not fall")

    say(f"run 2: the same with {mib(hbm)} of HBM, without hbmspill")
    fraction = {"XLA_CLIENT_MEM_FRACTION": f"{hbm / total:.6f}" if options.gpu else "1.0"}
    second = train("2-small", hbm, env=fraction)
    oom = second.status != 0 and "RESOURCE_EXHAUSTED" in second.output
    checks.hold(oom, f"run 2 should end with RESOURCE_EXHAUSTED; it ended with {second.status}")
    say(f"  done in {second.seconds:.0f} s: {'RESOURCE_EXHAUSTED' if oom else f'ended with {second.status}'}")

    say(f"run 3: the same with {mib(hbm)} of HBM and LD_PRELOAD=libhbmspill.so")
    settings = {k: v for k, v in os.environ.items() if k.startswith("HBMSPILL")}
    if options.gpu:
        settings["HBMSPILL_HBM_LIMIT"] = str(hbm)
    third = train("3-spilled", hbm, True, settings, f"--xla_gpu_load_autotune_results_from={autotuning}")
    completed = third.status == 0 and bool(third.result)
    say(f"  done in {third.seconds:.0f} s: {'completed' if completed else f'ended with {third.status}'}")
    same_program = identical = False
    if checks.hold(completed, f"run 3 did not complete (status {third.status}): see build/demo/3-spilled.log"):
        same_program = checks.hold(
            first.result["hlo_sha256"] == third.result["hlo_sha256"],
            "XLA compiled another program in run 3: compare build/demo/1-enough.hlo and 3-spilled.hlo",
        )
        where = same_bits(first.result, third.result)
        identical = checks.hold(
            where is None,
            "the final state differs between runs 1 and 3" if where == 0 else f"the loss of step {where} differs",
        )
    else:
        print(third.tail(30))
    if device == "synthetic":
        checks.failed += runs.disagreements(third, hbm)
    stats = third.stats
    checks.hold(stats.get("evictions"), "hbmspill spilled nothing in run 3")

    rows = [
        ("HBM", mib(hbm)),
        ("the job's need (peak of run 1)", f"{mib(need)}, {need / hbm:.2f} times the HBM"),
        ("without hbmspill", "RESOURCE_EXHAUSTED" if oom else f"ended with {second.status}"),
        ("with hbmspill", "completes" if completed else f"ended with {third.status}"),
        ("program, losses and final state", "identical" if identical and same_program else "NOT IDENTICAL"),
        ("spilled out, in", f"{mib(stats.get('bytes_out'))}, {mib(stats.get('bytes_in'))}"),
        ("evictions", stats.get("evictions", "-")),
        ("copies waited for", stats.get("copies_waited_for", "-")),
        ("most HBM in use", mib(third.report.get("peak_device_bytes") or stats.get("peak_hbm_bytes"))),
        ("losses", f"{losses[0]!r} to {losses[-1]!r} in {len(losses)} steps"),
        ("wall time of the three runs", f"{first.seconds:.0f} s, {second.seconds:.0f} s, {third.seconds:.0f} s"),
    ]
    print()
    for label, value in rows:
        print(f"  {label:34} {value}")
    print()
    for text in checks.failed:
        print(f"  does not hold: {text}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(
                {
                    "device": name,
                    "need_bytes": need,
                    "hbm_bytes": hbm,
                    "oom_without_shim": oom,
                    "identical": identical,
                    "same_program": same_program,
                    "bytes_out": stats.get("bytes_out"),
                    "bytes_in": stats.get("bytes_in"),
                    "evictions": stats.get("evictions"),
                    "copies_waited_for": stats.get("copies_waited_for"),
                    "peak_device_bytes": third.report.get("peak_device_bytes"),
                    "losses": third.result.get("losses", []),
                    "reference_losses": losses,
                    "state_sha256": third.result.get("state_sha256"),
                    "seconds": [round(r.seconds, 1) for r in (first, second, third)],
                    "does_not_hold": checks.failed,
                },
                file,
                indent=1,
            )
    say("everything above holds" if not checks.failed else f"{len(checks.failed)} of the claims above do not hold")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
