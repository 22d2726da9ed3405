"""Rows of the bench: one job on one machine under one plan, replayed and compared with the fluid bound. All times are modelled.

A machine is HBM (live bytes over a ratio), a link and a scale of what driver calls cost. Bounds are kept in build/bench by what
they depend on, replays are not. Sizes are bytes of the job that the trace stands for (Machine.scale), times seconds.
"""

import dataclasses
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import tempfile

import recording
import runs

REPLAY = os.path.join(runs.BUILD, "cache", "tools", "hbmspill-replay")
PLAN = os.path.join(runs.BUILD, "cache", "tools", "hbmspill-plan")
BOUND = os.path.join(runs.TOP, "scripts", "bound")
MACHINE = os.path.join(runs.TOP, "model", "machine.h")
SPARE = 1.02  # of live bytes in whole frames, at ratio 1
FAULT_SECONDS, FAULT_BYTES = 20e-6, 2 << 20  # demand paging as published: a group of faults
PLANS = {
    "lru": ["--policy", "lru", "--window", "off"],
    "greedy": ["--plan", "greedy"],
    "optimal": ["--plan", "optimal"],
}
# What is counted: rounds from the twelfth on, of twenty, when plans are made and pinned memory is there. The mean of the recorded
# rounds from the third on is in the row beside it.
PLANNED = ["--repeat", "12", "--steady", "12"]
PLAN_TIMED = (1.25, 0.5, 1.0)  # ratio, transfer, driver costs: where the time to plan is measured
LIMIT = 600  # seconds for one replay


def load_bound():
    """scripts/bound as a module."""
    loader = importlib.machinery.SourceFileLoader("bound", BOUND)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bound", loader))
    loader.exec_module(module)
    return module


bound_program = load_bound()


def file_hash(*paths):
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:12]


def write_json(path, value):
    """All of it or nothing."""
    directory = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile("w", dir=directory, prefix=".bench-", delete=False) as file:
        json.dump(value, file, indent=1)
        file.write("\n")
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def plans_known():
    """The plans hbmspill-replay can be asked for: {plan: its options}, and those it cannot."""
    usage = subprocess.run([REPLAY, "--help"], capture_output=True, text=True, check=False).stderr
    if "--plan" in usage:
        return dict(PLANS), []
    return {"lru": PLANS["lru"], "greedy": []}, ["optimal"]


def load_tape(path, scale=1.0):
    constants, _ = bound_program.machine()
    return bound_program.Tape(path, scale, constants["HBM_RATE"], constants["KERNEL_GAP"])


def live_bytes(path):
    return bound_program.live_bytes(load_tape(path))


class Job:
    """What was recorded of a job, and what is the same for all its rows. What it needs is said by the device's record."""

    def __init__(self, recorded):
        self.name, self.trace, self.record, self.key = recorded.job, recorded.trace, recorded.record, recorded.key
        self.scale = recorded.scale
        self.links = bound_program.machine()[1]
        self.tape = load_tape(self.record, self.scale)
        work = bound_program.Round(self.tape)
        self.live, self.largest, self.compute = bound_program.live_bytes(self.tape), work.largest, work.compute * 1e-9
        self.launches, self.rounds = work.length, self.tape.rounds

    def frame(self, hbm):
        """As the cache chooses it."""
        size = 2 << 20
        while hbm / size > 16384 and size < 32 << 20:
            size *= 2
        return size

    def hbm(self, ratio):
        if ratio > 1:
            return int(self.live / ratio)
        return int(SPARE * bound_program.live_bytes(self.tape, self.frame(self.live)))


@dataclasses.dataclass(frozen=True)
class Machine:
    job: Job
    ratio: float  # live bytes over HBM
    transfer: float | None  # (live - HBM) / rate over compute time; None: the link is a preset
    link: str = "scaled"
    driver_scale: float = 1.0

    @property
    def hbm(self):
        return self.job.hbm(self.ratio)

    @property
    def rates(self):
        """Bytes a second: in, out, and the same while the other way is busy."""
        if self.transfer is None:
            return self.job.links[self.link]
        moved = self.job.live - self.hbm if self.job.live > self.hbm else self.job.live
        return (moved / (self.transfer * self.job.compute),) * 4

    def options(self):
        rates = self.rates
        link = self.link if self.transfer is None else f"{rates[0] / 1e9!r},{rates[1] / 1e9!r}"
        return ["--hbm", str(self.hbm), "--link", link, "--size-scale", str(self.job.scale)]


def bound_of(machine, slots):
    """What scripts/bound says of it: a dictionary, {} where the job does not fit."""
    job = machine.job
    if machine.hbm >= job.live:  # nothing has to move
        return {"bound_seconds": job.compute, "slots": 0, "refinement": 0.0}
    options = [*machine.options(), "--slots", str(slots)]
    name = hashlib.sha256(repr((job.key, options, file_hash(BOUND, MACHINE))).encode()).hexdigest()[:16]
    kept = os.path.join(recording.DIRECTORY, "bounds", f"{job.name}-{name}.json")
    try:
        with open(kept) as file:
            return json.load(file)
    except (OSError, ValueError):
        pass
    done = subprocess.run([runs.PYTHON, BOUND, job.record, *options, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise recording.Failed(f"scripts/bound ended with {done.returncode}: {done.stderr.strip()}")
    said = json.loads(done.stdout) if done.returncode == 0 else {}
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    write_json(kept, said)
    return said


def replay(machine, options):
    """What hbmspill-replay says of it: (a dictionary, why not or None). Each starts without a plan that is kept."""
    command = [REPLAY, machine.job.trace, *machine.options(), *options, "--driver-scale", str(machine.driver_scale)]
    with tempfile.TemporaryDirectory(prefix="bench-") as empty:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HBMSPILL")} | {"XDG_CACHE_HOME": empty}
        try:
            done = subprocess.run(
                [*command, "--json"], env=environment, capture_output=True, text=True, check=False, timeout=LIMIT
            )
            if done.returncode == 3:
                text = subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout
                return {}, " ".join(re.findall(r"does not fit: .*", text)) or "does not fit"
        except subprocess.TimeoutExpired:
            return {}, f"replay took longer than {LIMIT} s"
    if done.returncode:
        raise recording.Failed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    said = json.loads(done.stdout)
    if said["period"] != machine.job.launches:
        raise recording.Failed(f"{machine.job.name}: replay found a round of {said['period']} launches, the bound another")
    return said["rows"][0], None


def plan_seconds(machine):
    """Processor time of hbmspill-plan for the round that replay finds on it; None where it finds none."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        cycle, plan = os.path.join(directory, "cycle"), os.path.join(directory, "plan")
        command = [REPLAY, machine.job.trace, *machine.options(), *PLANS["greedy"], "--cycle", cycle]
        subprocess.run(command, capture_output=True, check=False, timeout=LIMIT)
        if not os.path.exists(cycle):
            return None
        null = subprocess.DEVNULL
        process = subprocess.Popen([PLAN, cycle, "-o", plan], stdout=null, stderr=null)  # it limits itself
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 3):
            raise recording.Failed(f"hbmspill-plan ended with {process.returncode} for {machine.job.name}")
        return usage.ru_utime + usage.ru_stime


def row_of(machine, plan, options, slots):
    """One row, as in the JSON file. slowdown is against the job's kernels back to back: what graphs come to."""
    job, rates = machine.job, machine.rates
    timed = (machine.ratio, machine.transfer, machine.driver_scale)
    preset = round((job.live - machine.hbm) / rates[0] / job.compute, 3)
    row = {
        "job": job.name,
        "ratio": machine.ratio,
        "transfer": preset if machine.transfer is None else machine.transfer,
        "link": machine.link,
        "plan": plan,
        "driver_scale": machine.driver_scale,
        "hbm_bytes": machine.hbm,
        "live_bytes": job.live,
        "largest_operation_bytes": job.largest,
        "frame_bytes": job.frame(machine.hbm),
        "compute_seconds": job.compute,
    }
    least = bound_of(machine, slots)
    said, why = replay(machine, [*options, *PLANNED])
    row["bound"] = least.get("bound_seconds")
    row["bound_slots"], row["bound_refinement"] = least.get("slots"), least.get("refinement")
    row["fits"] = not why
    if why:
        return row | {"why": why}
    took = said["round_seconds"]
    early = replay(machine, options)[0] if machine.driver_scale == 1.0 else {}
    return row | {
        "round_seconds": took,
        "slowdown": took / job.compute,
        "slowdown_from_third": early["round_seconds"] / job.compute if early else None,
        "efficiency": row["bound"] / took if row["bound"] else None,
        "in_bytes": said["in_bytes"],
        "out_bytes": said["out_bytes"],
        "stalled": said["stalled_seconds"],
        "driver_seconds": said["driver_seconds"],
        "late_bytes": said.get("round_late_bytes"),
        "binding_calls": said["binding_calls"],
        "moved_units": said["moved_frames"],
        "plan_seconds": plan_seconds(machine) if (plan, *PLAN_TIMED) == ("optimal", *timed) else None,
        "demand_paging_seconds": job.compute
        + said["in_bytes"] / FAULT_BYTES * FAULT_SECONDS
        + said["in_bytes"] / rates[0]
        + said["out_bytes"] / rates[1]
        if plan == "lru"
        else None,
    }
