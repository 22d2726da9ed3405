"""Traces of the bench's jobs: each job runs once on the synthetic GPU with memory enough, and is kept by a hash of what it was.

A trace says what a job asks for, in a device's memory large enough that nothing is spilled. Everything that could change it is in
the key: the sources of the job, its options, the version of jaxlib, the flags for XLA. The launches are single ones (no
graphs), because a plan is about them.
"""

import dataclasses
import hashlib
import importlib.metadata
import os
import shutil

import runs

DIRECTORY = os.path.join(runs.BUILD, "bench")
JOBS = ("transformer", "scanned", "mlp", "decode", "actor_critic", "pairs")
# At 70 GiB for some 200 MiB a buffer of 2 KiB stands for one below HBMSPILL_MIN_SIZE's default, which stays in HBM.
SETTINGS = {
    "HBMSPILL_MIN_SIZE": "2048",
    "HBMSPILL_WINDOW": "off",
    "XLA_FLAGS": "--xla_gpu_enable_command_buffer=",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
MEMORY = 8 << 30  # of the synthetic GPU, sparse
SOURCES = ("tests/jobs/rounds.py", "tests/jobs/adam.py", "scripts/demo_train.py", "scripts/with-synthetic-gpu")


class Failed(Exception):
    """A job did not run; the text is the end of what it said."""


@dataclasses.dataclass(frozen=True)
class Recording:
    job: str
    path: str
    key: str  # names what was recorded: 12 hexadecimal digits


def program(job):
    return os.path.join(runs.TOP, "tests", "jobs", f"bench_{job}.py")


def _key(job, options):
    digest = hashlib.sha256()
    for source in (program(job), *(os.path.join(runs.TOP, source) for source in SOURCES)):
        with open(source, "rb") as file:
            digest.update(file.read())
    digest.update(repr((options, importlib.metadata.version("jaxlib"), sorted(SETTINGS.items()), MEMORY)).encode())
    return digest.hexdigest()[:12]


def record(job, steps, scale=1.0):
    """The trace of a job, recorded now where there is none yet."""
    options = ("--steps", str(steps), "--scale", str(scale))
    key = _key(job, options)
    kept = Recording(job, os.path.join(DIRECTORY, f"{job}-{key}.trace"), key)
    if os.path.exists(kept.path):
        return kept
    new = f"{kept.path}.{os.getpid()}"
    runs.say(f"recording {job}: {steps} steps on the synthetic GPU")
    run = runs.run(
        f"record-{job}",
        [runs.PYTHON, program(job), *options],
        DIRECTORY,
        device="synthetic",
        hbm=MEMORY,
        shim=True,
        env={**SETTINGS, "HBMSPILL_TRACE": new},
        limit=600,
    )
    if run.status != 0 or not os.path.exists(new):
        raise Failed(f"{job} ended with {run.status}:\n{run.tail()}")
    if run.stats.get("evictions"):
        raise Failed(f"{job}: {run.stats['evictions']} evictions while it was recorded: memory was not enough")
    shutil.move(new, kept.path)
    return kept
