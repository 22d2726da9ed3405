"""What pinned host memory costs, as ratios within one run, and what a control group leaves.

mlock stands for the driver's registration. The control group is one made for this where the machine allows it,
else files that look like one, and it is said which.
"""

import os
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(TOP, "build", "tests", "unit", "bench_pinned")
LIMIT = 256 << 20
V1 = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
V2 = ("/sys/fs/cgroup", "memory.max")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def make_group():
    """A group with that limit: its directory, or None where it cannot be made here."""
    for root, limit in (V1, V2):
        group = os.path.join(root, f"hbmspill-bench-{os.getpid()}")
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            write(os.path.join(group, limit), str(LIMIT))
            return group
        except OSError:
            os.rmdir(group)
    return None


def left(arguments, group=None):
    """What the program says that the group leaves, in bytes."""
    enter = (lambda: write(os.path.join(group, "cgroup.procs"), str(os.getpid()))) if group else None
    run = subprocess.run([PROGRAM, "--limit", *arguments], preexec_fn=enter, capture_output=True, text=True, check=True)
    return int(run.stdout.split()[1])


def stand_in(used):
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "proc", "self"))
        os.makedirs(os.path.join(root, "sys/fs/cgroup/bench"))
        write(os.path.join(root, "proc/self/cgroup"), "0::/bench\n")
        write(os.path.join(root, "proc/meminfo"), "MemAvailable: 8000000 kB\n")
        write(os.path.join(root, "sys/fs/cgroup/bench/memory.max"), f"{LIMIT}\n")
        write(os.path.join(root, "sys/fs/cgroup/bench/memory.current"), f"{used}\n")
        return left([root])


def control_group():
    group = make_group()
    if group:
        try:
            bytes_left = left([], group)
        finally:
            os.rmdir(group)
        how = f"a group made in {os.path.dirname(group)}"
        good = 0.9 * LIMIT < bytes_left <= LIMIT  # the program itself uses some
    else:
        bytes_left = stand_in(LIMIT // 4)
        how = "files that look like a group's: none can be made on this machine"
        good = bytes_left == LIMIT * 3 // 4
    print(f"left/limit        {bytes_left / LIMIT:8.5f}   a limit of {LIMIT >> 20} MiB, in {how}")
    return good


def main():
    if len(sys.argv) > 1:
        sys.exit("usage: scripts/bench pinned")
    make = ["make", "--no-print-directory", "-s", "-C", os.path.join(TOP, "build"), "tests/unit/bench_pinned"]
    subprocess.run(make, check=True, stdout=sys.stderr)
    good = subprocess.run([PROGRAM]).returncode == 0
    return 0 if control_group() and good else 1


if __name__ == "__main__":
    sys.exit(main())
