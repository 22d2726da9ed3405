"""What the bench's jobs do, recorded once each on the synthetic GPU with memory enough, and kept by a hash of what they were.

Of a job there are two recordings, of two runs: the trace that hbmspill makes of it, which is replayed, and the device's own record of
the same job without hbmspill, which bounds are computed from. How long kernels run is in the record (virtual time, a byte
standing for so many that live bytes are 70 GiB); the trace gets it from there, launch by launch. The launches are single ones (no
graphs) and every array is an allocation, because that is what a plan is about.
"""

import dataclasses
import hashlib
import importlib.metadata
import math
import os
import re
import shutil

import runs

DIRECTORY = os.path.join(runs.BUILD, "bench")
JOBS = ("transformer", "scanned", "mlp", "decode", "actor_critic", "pairs")
LIVE = 70 << 30  # what a job's live bytes stand for
# At that scale a buffer of 2 KiB stands for one below HBMSPILL_MIN_SIZE's default, which stays in HBM.
SHIM = {"HBMSPILL_MIN_SIZE": "2048", "HBMSPILL_WINDOW": "off"}
SETTINGS = {
    "XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async",
    "XLA_FLAGS": "--xla_gpu_enable_command_buffer= --xla_multiheap_size_constraint_per_heap=1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
MEMORY = 8 << 30  # of the synthetic GPU, sparse
SOURCES = ("tests/jobs/rounds.py", "tests/jobs/adam.py", "scripts/demo_train.py", "hooks/trace.c", "cache/tape_write.c")  # and what writes
# What durations are made of, and what is told of waits.
MODEL = ("model/machine.h", "tests/synthetic/timeline_cost.c", "tests/synthetic/record.c")


class Failed(Exception):
    """A job did not run; the text is the end of what it said."""


@dataclasses.dataclass(frozen=True)
class Recording:
    job: str
    trace: str  # path of what is replayed
    record: str  # path of the device's own
    scale: float  # what a byte stands for
    key: str  # names what was recorded: 12 hexadecimal digits


def program(job):
    return os.path.join(runs.TOP, "tests", "jobs", f"bench_{job}.py")


def _hash(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def _sources(*paths):
    texts = []
    for path in paths:
        with open(os.path.join(runs.TOP, path), "rb") as file:
            texts.append(hashlib.sha256(file.read()).hexdigest())
    return texts


def _flags():
    """What scripts/with-synthetic-gpu tells XLA."""
    with open(runs.SYNTHETIC) as file:
        return re.search(r'^flags="(.*?)"$', file.read(), re.DOTALL | re.MULTILINE)[1]


def _run(job, what, options, **arguments):
    """The job on the synthetic GPU; what: begins the names of its files."""
    run = runs.run(
        f"{what}-{job}",
        [runs.PYTHON, program(job), *options],
        DIRECTORY,
        device="synthetic",
        hbm=MEMORY,
        limit=1500,  # of seconds; machines are shared
        **arguments,
    )
    if run.status != 0:
        raise Failed(f"{job} ended with {run.status}:\n{run.tail()}")
    return run


def _trace(job, options):
    """(path of the trace as the job made it, its key)."""
    key = _hash(
        options,
        importlib.metadata.version("jaxlib"),
        _sources(program(job), *SOURCES),
        _flags(),
        sorted(SHIM.items()),
        sorted(SETTINGS.items()),
        MEMORY,
    )
    path = os.path.join(DIRECTORY, f"{job}-{key}.untimed")
    if not os.path.exists(path):
        new = f"{path}.{os.getpid()}"
        runs.say(f"recording {job} with hbmspill, on the synthetic GPU")
        run = _run(job, "trace", options, shim=True, env={**SETTINGS, **SHIM, "HBMSPILL_TRACE": new})
        if run.stats.get("evictions"):
            raise Failed(f"{job}: {run.stats['evictions']} evictions while it was recorded: memory was not enough")
        shutil.move(new, path)
    return path, key


def _launches(path):
    """[(names of kernels, durations)] in order, of a trace or record."""
    names, launches = [], []
    with open(path) as file:
        for line in file:
            if line.startswith("n "):
                names.append(line.split(" ", 2)[2])
            elif line.startswith("l "):
                fields = line.split(" ", 4)
                launches.append((names[int(fields[2])], fields[3].strip()))
    return launches


def _timed(untimed, record, path):
    """The trace with the record's durations, written to path."""
    launches = _launches(record)
    if [name for name, _ in launches] != [name for name, _ in _launches(untimed)]:
        raise Failed(f"{untimed} and {record} are not of the same launches")
    times = (duration for _, duration in launches)
    new = f"{path}.{os.getpid()}"
    with open(untimed) as file, open(new, "w") as out:
        for line in file:
            if line.startswith("l "):
                fields = line.split(" ", 4)
                fields[3] = next(times) + ("\n" if len(fields) == 4 else "")
                line = " ".join(fields)
            out.write(line)
    os.replace(new, path)


def record(job, steps, live_bytes):
    """The recordings of a job, made now where there are none yet. live_bytes: of a trace, as a function of its path."""
    options = ("--steps", str(steps))
    untimed, key = _trace(job, options)
    # A power of two: the sizes of a large job's arrays are as round as those of a small one.
    scale = float(2 ** round(math.log2(LIVE / live_bytes(untimed))))
    key = _hash(key, scale, _sources(*MODEL))
    path = {what: os.path.join(DIRECTORY, f"{job}-{key}.{what}") for what in ("trace", "record")}
    if not os.path.exists(path["record"]):
        new = f"{path['record']}.{os.getpid()}"
        runs.say(f"recording {job} without hbmspill, in virtual time")
        virtual = {"SYNTHETIC_GPU_CLOCK": "1", "SYNTHETIC_GPU_SIZE_SCALE": str(scale), "SYNTHETIC_GPU_RECORD": new}
        _run(job, "record", options, env={**SETTINGS, **virtual})
        shutil.move(new, path["record"])
    if not os.path.exists(path["trace"]):
        _timed(untimed, path["record"], path["trace"])
    return Recording(job, path["trace"], path["record"], scale, key)
