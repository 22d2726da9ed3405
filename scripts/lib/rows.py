"""Rows of the bench: one job on one machine under one plan, replayed and compared with the fluid bound. All times are modelled.

A machine is HBM (live bytes over a ratio), a link and a scale of what driver calls cost. Replays and bounds are kept in build/bench
by all they depend on, the programs that made them included, each for itself: a bench that was interrupted goes on where it was.
Sizes are bytes of the job that the trace stands for (Machine.scale), times seconds.
"""

import dataclasses
import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import re
import signal
import statistics
import subprocess
import tempfile
import threading

import recording
import runs

REPLAY = os.path.join(runs.BUILD, "cache", "tools", "hbmspill-replay")
PLAN = os.path.join(runs.BUILD, "cache", "tools", "hbmspill-plan")
BOUND = os.path.join(runs.TOP, "scripts", "bound")
MACHINE = os.path.join(runs.TOP, "model", "machine.h")
SPARE = 1.02  # of live bytes in whole frames, at ratio 1
LARGE = 3  # times live bytes: nothing has to move
FAULT_SECONDS, FAULT_BYTES = 20e-6, 2 << 20  # demand paging as published: a group of faults
# What is counted with a plan: rounds from the twelfth on, of twenty, when plans are made and pinned memory is there; without one the
# recorded rounds from the third on. The mean of these is in every row.
PLANNED = ["--repeat", "12", "--steady", "12"]
PLANS = {
    "lru": ["--policy", "lru", "--window", "off", "--plan", "off", "--prefetch", "off"],
    "greedy": ["--plan", "greedy", *PLANNED],
    "optimal": ["--plan", "optimal", *PLANNED],
}
PLAN_TIMED = (1.25, 0.5, 1.0)  # ratio, transfer, driver costs: where the time to plan is measured
FIRST_STEADY = 2  # rounds ahead of those that are counted without a plan


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
        self.launches, self.rounds, self.inputs = work.length, self.tape.rounds, bool(work.inputs)
        self.kept = sum(self.tape.sizes[birth] for birth, _, _ in work.kept)  # bytes a round that are freed late
        self.moments = max(144, self.launches // 10)  # of a bound that takes seconds

    def frame(self, hbm):
        """As the cache chooses it."""
        size = 2 << 20
        while hbm / size > 65536 and size < 32 << 20:
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
    large: bool = False  # the same with HBM for everything

    @property
    def hbm(self):
        return LARGE * int(self.job.live) if self.large else self.job.hbm(self.ratio)

    @property
    def rates(self):
        """Bytes a second: in, out, and the same while the other way is busy."""
        if self.transfer is None:
            return self.job.links[self.link]
        hbm = self.job.hbm(self.ratio)
        moved = self.job.live - hbm if self.job.live > hbm else self.job.live
        return (moved / (self.transfer * self.job.compute),) * 4

    def options(self):
        rates = self.rates
        link = self.link if self.transfer is None else f"{rates[0] / 1e9!r},{rates[1] / 1e9!r}"
        return ["--hbm", str(self.hbm), "--link", link, "--size-scale", str(self.job.scale)]


class Kept:
    """A directory of answers, by all they depend on. An answer is worked out by one thread, while others wait for it."""

    def __init__(self, directory):
        self.directory = os.path.join(recording.DIRECTORY, directory)
        self.locks, self.lock = {}, threading.Lock()

    def get(self, name, depends, work, good=lambda answer: True):
        """(the answer, whether it was kept). name: begins the file's. good: of a kept one, whether it will do."""
        path = os.path.join(self.directory, f"{name}-{hashlib.sha256(repr(depends).encode()).hexdigest()[:16]}.json")
        with self.lock:
            lock = self.locks.setdefault(path, threading.Lock())
        with lock:
            try:
                with open(path) as file:
                    answer = json.load(file)
                if good(answer):
                    return answer, True
            except (OSError, ValueError):
                pass
            answer = work()
            os.makedirs(self.directory, exist_ok=True)
            write_json(path, answer)
            return answer, False


BOUNDS, REPLAYS = Kept("bounds"), Kept("rows")


def bound_of(machine, slots=None, told=False):
    """What scripts/bound says of it: a dictionary, {} where the job does not fit. told: deaths are what the job tells. slots: moments it looks at, at most; None: so many
    that it takes seconds, and where its last refinements still moved it by 1 % or more, twice as many."""
    if slots is None:
        for times in (1, 2):
            said = bound_of(machine, times * machine.job.moments, told)
            if said.get("refinement") is not None and said["refinement"] < 0.01:
                break
        return said
    job = machine.job
    if machine.hbm < job.largest:
        return {}
    if machine.hbm >= job.live and not job.inputs:  # nothing has to move
        return {"bound_seconds": job.compute, "slots": 0, "refinement": 0.0}
    options = [*machine.options(), "--slots", str(slots), *(["--told"] if told else [])]

    def work():
        done = subprocess.run([runs.PYTHON, BOUND, job.record, *options, "--json"], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            raise recording.Failed(f"scripts/bound ended with {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    return BOUNDS.get(job.name, (job.key, options, file_hash(BOUND, MACHINE)), work)[0]


def plan_seconds(machine, cycle, directory):
    """Processor time of hbmspill-plan for the round that replay found and wrote to the file `cycle'; None where it found none, or
    where the machine had no time for it: it takes what nobody else wants, and ends itself after so long."""
    if not os.path.exists(cycle):
        return None
    null = subprocess.DEVNULL
    process = subprocess.Popen([PLAN, cycle, "-o", os.path.join(directory, "plan")], stdout=null, stderr=null)  # it limits itself
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode == -signal.SIGALRM:
        runs.say(f"{machine.job.name}: hbmspill-plan got too little of the machine to be timed")
        return None
    if process.returncode not in (0, 3):
        raise recording.Failed(f"hbmspill-plan ended with {process.returncode} for {machine.job.name}")
    return usage.ru_utime + usage.ru_stime


def replay(machine, options, limit, timed):
    """What hbmspill-replay says of the machine, a dictionary with what it cost; {"why": text} where there is no result. Each starts
    without a plan that is kept. timed: "plan_seconds" is measured, too."""
    job = machine.job
    command = [REPLAY, job.trace, *machine.options(), *options, "--driver-scale", str(machine.driver_scale)]
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HBMSPILL")} | {"XDG_CACHE_HOME": directory}
        cycle = os.path.join(directory, "cycle")
        begin = os.times()
        try:
            done = subprocess.run(
                [*command, "--json", *(["--cycle", cycle] if timed else [])],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=limit,
            )
            if done.returncode == 3:
                text = subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout
                return {"why": " ".join(re.findall(r"does not fit: .*", text)) or "does not fit"}
        except subprocess.TimeoutExpired:
            return {"why": f"replay took longer than {limit} s", "limit": limit}
        if done.returncode:
            raise recording.Failed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
        said = json.loads(done.stdout)
        if said["period"] != job.launches:
            raise recording.Failed(f"{job.name}: replay found a round of {said['period']} launches, the bound another")
        took = os.times().elapsed - begin.elapsed
        row = said["rows"][0] | {"replay_seconds": took, "remarks": done.stderr.strip()}
        if timed:
            row["plan_seconds"] = plan_seconds(machine, cycle, directory)
        return row


def large_seconds(machine, limit):
    """A round of the job on the machine with HBM for everything: its kernels back to back, which is what graphs come to, and what the
    job's own copies make them wait."""
    large = dataclasses.replace(machine, large=True, driver_scale=1.0)
    options = ["--plan", "off"]
    said, _ = REPLAYS.get(
        f"{machine.job.name}-large",
        (machine.job.key, large.options(), options, _programs(False)),
        lambda: replay(large, options, limit, False),
        lambda answer: "why" not in answer,
    )
    if "why" in said:
        raise recording.Failed(f"{machine.job.name} in large HBM: {said['why']}")
    return max(said["round_seconds"], machine.job.compute)


def row_of(machine, plan, slots, limit):
    """(one row, as in the JSON file; whether its replay was kept). slowdown is against the same job, and the same link, in large HBM."""
    job, rates = machine.job, machine.rates
    preset = round((job.live - machine.hbm) / rates[0] / job.compute, 3)
    timed = (plan, *PLAN_TIMED) == ("optimal", machine.ratio, machine.transfer, machine.driver_scale)
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
    depends = (job.key, machine.options(), PLANS[plan], machine.driver_scale, timed, _programs(timed))
    said, kept = REPLAYS.get(
        f"{job.name}-{plan}",
        depends,
        lambda: replay(machine, PLANS[plan], limit, timed),
        lambda answer: answer.get("limit", limit) >= limit,
    )
    least = bound_of(machine, slots)
    large = row["large_seconds"] = large_seconds(machine, limit)
    # Not the time in large HBM: a window lets the job's own copies run beside kernels that they wait for without it.
    row["bound"] = max(least["bound_seconds"], job.compute) if least.get("bound_seconds") else None
    row["bound_slots"], row["bound_refinement"] = least.get("slots"), least.get("refinement")
    told = bound_of(machine, slots, True) if job.kept and row["bound"] else {}
    row["told_bound"] = max(row["bound"], told.get("bound_seconds", 0)) if row["bound"] else None
    row["fits"] = "why" not in said
    if not row["fits"]:
        return row | {"why": said["why"]}, kept
    took = said["round_seconds"]
    third = said["each_round_seconds"][FIRST_STEADY : job.rounds]
    return row | {
        "round_seconds": took,
        "slowdown": took / large,
        "slowdown_from_third": statistics.fmean(third) / large,
        "efficiency": row["bound"] / took if row["bound"] else None,
        "told_efficiency": row["told_bound"] / took if row["bound"] else None,
        "in_bytes": said["in_bytes"],
        "out_bytes": said["out_bytes"],
        "stalled": said["stalled_seconds"],
        "driver_seconds": said["driver_seconds"],
        "late_bytes": said["round_late_bytes"],
        "binding_calls": said["binding_calls"],
        "moved_units": said["moved_frames"],
        "replay_seconds": said["replay_seconds"],
        "remarks": said["remarks"],
        "plan_seconds": said.get("plan_seconds"),
        "demand_paging_seconds": job.compute
        + said["in_bytes"] / FAULT_BYTES * FAULT_SECONDS
        + said["in_bytes"] / rates[0]
        + said["out_bytes"] / rates[1]
        if plan == "lru"
        else None,
    }, kept


@functools.cache
def _programs(timed):
    """What makes a replay what it is besides its options: machine.h is compiled into the programs."""
    return file_hash(REPLAY, PLAN) if timed else file_hash(REPLAY)
