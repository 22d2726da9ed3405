"""The bound against replay, and against what can be reckoned by hand.

    bound.py HBMSPILL_REPLAY SCRIPTS_BOUND      ends with `N passed, N failed`
"""

import json
import random
import subprocess
import sys
import tempfile

MIB = 2**20
REPLAY, BOUND = sys.argv[1:3]
passed = failed = 0


def check(what, holds):
    global passed, failed
    passed += holds
    failed += not holds
    if not holds:
        print(f"FAIL  {what}")


def run(command, status=0):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    check(f"{' '.join(command)} exits with {status}, not {done.returncode}: {done.stderr}", done.returncode == status)
    return done


def trace(path, sizes, round_of_launches, rounds, inputs=()):
    """round_of_launches: [(ns, allocations that last, sizes of temporaries born here, temporaries used)]; inputs: temporaries that the
    job copies in."""
    lines, births = [], 0
    names = [f"n {i} kernel {i}" for i in range(len(round_of_launches))]
    for size in sizes:
        lines.append(f"a {births} {size}")
        births += 1
    for _ in range(rounds):
        temporaries = []
        for name, (duration, lasting, born, used) in enumerate(round_of_launches):
            for size in born:
                lines.append(f"a {births} {size}")
                if len(temporaries) in inputs:
                    lines.append(f"c 1 i {size} {births}w")
                temporaries.append(births)
                births += 1
            touched = list(lasting) + [temporaries[i] for i in used]
            lines.append(f"l 0 {name} {duration} {' '.join(map(str, touched))}")
        lines += [f"f {birth} 0" for birth in temporaries]
        lines.append("s 0")
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(["hbmspill-trace 1", *names, *lines, f"e {len(lines)}"]) + "\n")


def bound(path, *arguments):
    done = run([sys.executable, BOUND, path, "--json", *arguments])
    return json.loads(done.stdout)


def close(value, to):
    return abs(value - to) <= 0.002 * to


def by_hand(path):
    """Two buffers of 8 MiB take turns, 1 ms each, in 8 MiB of HBM: each launch waits for 8 MiB out and in."""
    trace(path, [8 * MIB] * 2, [(1000000, [0], [], []), (1000000, [1], [], [])], 5)
    one_way = 8 * MIB / 8e9
    result = bound(path, "--hbm", "8M", "--link", "8,8")
    check(f"both ways at once: {result}", close(result["bound_seconds"], 2 * (1e-3 + one_way)))
    result = bound(path, "--hbm", "16M", "--link", "8,8")
    check(f"all of it fits: {result}", close(result["bound_seconds"], 2e-3))
    result = bound(path, "--hbm", "8M", "--link", "4,8")
    check(f"in at half the rate: {result}", close(result["bound_seconds"], 2 * (1e-3 + 2 * one_way)))
    result = bound(path, "--hbm", "8M", "--link", "8,8", "--makespan", "0.008")
    check(f"efficiency: {result}", close(result["efficiency"], 2 * (1e-3 + one_way) / 8e-3))
    run([sys.executable, BOUND, path, "--hbm", "4M"], status=3)
    # Three of 8 MiB in 16: what is not in use moves while the others compute, 8 MiB out and in each turn.
    trace(path, [8 * MIB] * 3, [(4000000, [i], [], []) for i in range(3)], 5)
    result = bound(path, "--hbm", "16M", "--link", "8,8")
    check(f"hidden behind the others: {result}", close(result["bound_seconds"], 12e-3))


def own_input(path):
    """8 MiB that last, used all the time, and 8 MiB from the host used in the first of two launches, in 16 MiB: the copy for the next
    round can run while the second does, and no earlier."""
    lines = ["a 0 8388608"]
    for birth in range(1, 7):
        lines += [f"a {birth} 8388608", f"c 1 i 8388608 {birth}w"]
        lines += [f"l 0 0 1000000 0 {birth}r", f"f {birth} 0", "l 0 1 1000000 0", "s 0"]
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(["hbmspill-trace 1", "n 0 first", "n 1 second", *lines, f"e {len(lines)}"]) + "\n")
    result = bound(path, "--hbm", "16M", "--link", "4,8")
    check(f"a job's own input: {result}", close(result["bound_seconds"], 1e-3 + 8 * MIB / 4e9))
    result = bound(path, "--hbm", "16M", "--link", "16,8")
    check(f"a job's own input, hidden: {result}", close(result["bound_seconds"], 2e-3))


def ordered_input(path):
    """The same with HBM to spare, and the copy ordered behind the first launch of the round before, or behind its second, by events: then
    nothing runs beside it."""
    for behind in (0, 1):
        lines = ["a 0 8388608"]
        for birth in range(1, 7):
            lines += [f"a {birth} 8388608", f"q 1 {birth - 2}"] if birth > 1 else [f"a {birth} 8388608"]
            lines += [f"c 1 i 8388608 {birth}w", f"l 0 0 1000000 0 {birth}r", f"f {birth} 0"]
            lines += ["l 0 1 1000000 0", f"r 0 {birth - 1}"] if behind else [f"r 0 {birth - 1}", "l 0 1 1000000 0"]
            lines.append("s 0")
        with open(path, "w", encoding="ascii") as file:
            file.write("\n".join(["hbmspill-trace 1", "n 0 first", "n 1 second", *lines, f"e {len(lines)}"]) + "\n")
        for rate in (4, 16):
            took = 8 * MIB / (rate * 1e9)
            result = bound(path, "--hbm", "64M", "--link", f"{rate},8")
            wanted = 2e-3 + took if behind else max(2e-3, 1e-3 + took)
            check(f"an input behind launch {behind} at {rate} GB/s: {result}", close(result["bound_seconds"], wanted))


def told(path):
    """8 MiB that last, used all the time, and 8 MiB for each of two launches, in 16 MiB: nothing has to move, but where it is told too
    late that the first launch's are dead: then they leave in between. Told ahead of the next wait is told at once."""
    for late in (False, True):
        lines = ["a 0 8388608"]
        for birth in range(1, 13, 2):
            lines += [f"a {birth} 8388608", f"l 0 0 1000000 0 {birth}", f"a {birth + 1} 8388608", f"l 0 1 1000000 0 {birth + 1}"]
            lines += [f"f {birth + 1} 0", *(["s -", f"f {birth} 0"] if late else [f"f {birth} 0", "s -"])]
        with open(path, "w", encoding="ascii") as file:
            file.write("\n".join(["hbmspill-trace 1", "n 0 first", "n 1 second", *lines, f"e {len(lines)}"]) + "\n")
        machine = ["--hbm", "16M", "--link", "8,4"]
        check("touches alone do not tell", close(bound(path, *machine)["bound_seconds"], 2e-3))
        result = bound(path, *machine, "--told")
        check(f"told late: {late}: {result}", close(result["bound_seconds"], 2e-3 + late * 8 * MIB / 4e9))


def device_record(path):
    """What a device says of itself is read as a trace is; live bytes may be counted in whole units."""
    trace(path, [8 * MIB] * 2, [(1000000, [0], [], []), (1000000, [1], [], [])], 5)
    with open(path, encoding="ascii") as file:
        text = file.read().replace("hbmspill-trace 1", "device-record 1", 1)
    before = bound(path, "--hbm", "8M", "--link", "8,8")
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    check("a device's record gives the same bound", bound(path, "--hbm", "8M", "--link", "8,8") == before)


def refinement(path):
    """Finer moments move the bound up, and by how much is said; all of them are the end of it."""
    trace(path, [8 * MIB] * 12, [(1000000, [i // 4, 11 - i // 4], [], []) for i in range(48)], 5)
    machine = ["--hbm", "48M", "--link", "ratio:1"]
    coarse, fine = bound(path, *machine, "--slots", "4"), bound(path, *machine)
    check(f"{fine} is above {coarse}", fine["bound_seconds"] > coarse["bound_seconds"])
    check(f"one solution says nothing of refinement: {coarse}", coarse["refinement"] is None)
    check(f"it was refined to the end: {fine}", 0 <= fine["refinement"] < 0.01 and fine["slots"] > 4)
    easy = bound(path, "--hbm", "96M", "--link", "ratio:1")
    check(f"nothing has to move: {easy}", easy["slots"] == 0 and easy["refinement"] == 0 and close(easy["bound_seconds"], 0.048))


def random_round(rng):
    lasting = [rng.randrange(1, 9) * 2 * MIB for _ in range(rng.randrange(4, 10))]
    launches, born_so_far = [], 0
    for _ in range(rng.randrange(8, 24)):
        born = [rng.randrange(1, 6) * 2 * MIB for _ in range(rng.randrange(2))]
        born_so_far += len(born)
        used = sorted(set(range(born_so_far - len(born), born_so_far)) | set(range(born_so_far)[-2:]))
        launches.append((rng.randrange(100000, 2000000), rng.sample(range(len(lasting)), 2), born, used))
    return lasting, launches, set(rng.sample(range(born_so_far), born_so_far // 3))


def against_replay(path, seed):
    """No replay is faster than the bound, driver calls at no cost included."""
    rng = random.Random(seed)
    lasting, launches, inputs = random_round(rng)
    trace(path, lasting, launches, 6, inputs)
    for ratio, times in ((0.3, 1.2), (1.0, 1.5)):
        machine = ["--hbm", f"{times}x", "--link", f"ratio:{ratio}"]
        least = None
        for more in (["--window", "off", "--policy", "lru"], ["--window", "auto", "--driver-scale", "0"]):
            done = subprocess.run([REPLAY, path, "--json", *machine, *more], capture_output=True, text=True, check=False)
            row = json.loads(done.stdout)["rows"][0]
            if not row["fits"]:
                continue
            if least is None:
                least = bound(path, *machine)
                check(f"seed {seed}: live bytes differ", least["live_bytes"] == json.loads(done.stdout)["live_bytes"])
                check(f"seed {seed}: not below compute", least["bound_seconds"] >= 0.9999 * least["compute_seconds"])
                alive = bound(path, *machine, "--told")
                check(f"seed {seed}: told in time: {alive}", close(alive["bound_seconds"], least["bound_seconds"]))
            check(
                f"seed {seed} {machine} {more}: bound {least['bound_seconds']}, replay {row['round_seconds']}",
                least["bound_seconds"] <= row["round_seconds"] * 1.0001,
            )


def damaged(path):
    for text in ("", "hbmspill-trace 1\na 0 4096\n", "hbmspill-trace 1\nl 0 zero - 1\ne 1\n", "something else\n"):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        for command in ([sys.executable, BOUND, path, "--hbm", "1G"], [REPLAY, path, "--hbm", "1G"]):
            done = run(command, status=1)
            check(f"{command[-3:]}: one line: {done.stderr!r}", done.stderr.count("\n") == 1 and path in done.stderr)
            check(f"{command[-3:]}: nothing printed", done.stdout == "")


def main():
    with tempfile.NamedTemporaryFile(suffix=".trace") as file:
        by_hand(file.name)
        own_input(file.name)
        ordered_input(file.name)
        told(file.name)
        damaged(file.name)
        device_record(file.name)
        refinement(file.name)
        for seed in range(6):
            against_replay(file.name, seed)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
