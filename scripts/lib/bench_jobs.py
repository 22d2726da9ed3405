"""scripts/bench jobs: the jobs of tests/jobs/bench_*.py replayed on machines too small for them. All times are modelled.

Records each job once on the synthetic GPU, replays it for every row, computes the fluid bound for each machine, prints every row
as it comes and the figures in the end. Rows and bounds are kept in build/bench by what they depend on, and the file of --json is
written anew with every row: a bench that was stopped goes on where it was. The most telling rows come first. Exit: 0; 1 where
something failed or an efficiency is above 1.01. That a figure is not reached is no failure: it is what the table is for.
"""

import argparse
import collections
import concurrent.futures
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import figures  # noqa: E402
import progress  # noqa: E402
import recording  # noqa: E402
import rows  # noqa: E402
import runs  # noqa: E402

GIB = 1 << 30
BEGIN = time.monotonic()


def numbers(text):
    return [float(part) for part in text.split(",") if part]


def words(allowed):
    def parse(text):
        found = [part for part in text.split(",") if part]
        for part in found:
            if part not in allowed:
                raise argparse.ArgumentTypeError(f"'{part}' is none of {', '.join(allowed)}")
        return found

    return parse


def parse_arguments():
    links = rows.bound_program.machine()[1]
    parser = argparse.ArgumentParser(prog="bench jobs", description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the rows and figures there")
    parser.add_argument("--jobs", type=words(recording.JOBS), default=list(recording.JOBS), help="default: all")
    parser.add_argument("--ratios", type=numbers, default=[1.0, 1.1, 1.25, 1.5, 2.0], help="live bytes over HBM")
    parser.add_argument("--transfer", type=numbers, default=[0.25, 0.5, 1.0], help="(live - HBM) / rate over compute time")
    parser.add_argument("--plan", type=words(rows.PLANS), default=list(rows.PLANS), help="default: lru,greedy,optimal")
    parser.add_argument("--links", type=words(links), default=["pcie5", "c2c"], help="presets, at 1.25 and 1.5 of the ratios")
    parser.add_argument("--driver-scales", type=numbers, default=[0.5, 2.0], help="driver costs to repeat the rows at")
    parser.add_argument("--slots", type=int, help="moments of a round that the bound looks at, at most; default: as many as it takes, within bounds")
    parser.add_argument("--rounds", type=int, default=8, help="recorded")
    parser.add_argument("--limit", type=int, default=450, help="seconds for one replay")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="rows worked at at once; default: processors")
    parser.add_argument("--time", type=float, help="seconds after which no more rows are begun")
    parser.add_argument("--quick", action="store_true", help="one machine for each job: 1.25, 0.5; costs as they are")
    options = parser.parse_args()
    if options.quick:
        options.ratios, options.transfer, options.links, options.driver_scales = [1.25], [0.5], [], []
    if any(ratio < 1 for ratio in options.ratios):
        parser.error("--ratios: from 1 on")
    return options


def wanted_rows(options, jobs):
    """[(machine, plan)], in the order of the table."""
    machines = []
    for job in jobs:
        for ratio in options.ratios:
            machines += [rows.Machine(job, ratio, transfer) for transfer in options.transfer]
            if ratio in (1.25, 1.5):
                machines += [rows.Machine(job, ratio, None, link) for link in options.links]
    wanted = [(machine, plan) for machine in machines for plan in options.plan]
    wanted += [
        (rows.Machine(m.job, m.ratio, m.transfer, m.link, scale), plan)
        for scale in options.driver_scales
        for m, plan in wanted
        if m.transfer is not None and plan != "lru"
    ]
    return wanted


def rank(row):
    """Of (machine, plan): what says most goes first, and a job that takes long behind others."""
    machine, plan = row
    middle = machine.transfer == 0.5 and machine.ratio in (1.0, 1.25, 1.5)
    kind = (machine.driver_scale != 1.0) * 4 or (machine.transfer is None) * 3 or (plan == "lru") * 2 or (not middle)
    return kind, machine.job.launches > 2000


class Table:
    """The rows there are, in the order of the table; shown and written as they come."""

    def __init__(self, options, jobs, model):
        self.options, self.jobs, self.model = options, jobs, model
        self.wanted = wanted_rows(options, jobs)
        self.found = {}
        self.lock = threading.Lock()
        self.progress = progress.Counter("rows", len(self.wanted))

    @property
    def rows(self):
        return [self.found[one] for one in self.wanted if one in self.found]

    def work(self, one):
        """A row, unless the time is over: nothing."""
        if self.options.time and time.monotonic() - BEGIN > self.options.time:
            return
        row, kept = rows.row_of(*one, self.options.slots, self.options.limit)
        with self.lock:
            self.found[one] = row
            self.progress.clear()
            show_row(row, kept)
            self.progress.one_more()
            self.write()

    def write(self):
        if not self.options.json:
            return
        table = self.rows
        found, comparisons = figures.figures(table), compared(table)
        rows.write_json(
            self.options.json,
            {
                "modelled": True,
                "machine": self.model,
                "traces": {job.name: job.key for job in self.jobs},
                "complete": len(table) == len(self.wanted),
                "rows": table,
                "figures": [vars(figure) | {"verdict": figure.verdict} for figure in found],
                "comparisons": {name: ratio for name, (ratio, _) in comparisons.items()},
            },
        )

    def measure(self):
        with concurrent.futures.ThreadPoolExecutor(self.options.processes) as pool:
            futures = [pool.submit(self.work, one) for one in sorted(self.wanted, key=rank)]
            try:
                for future in concurrent.futures.as_completed(futures):
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def show_head():
    print(
        f"\n{'job':12} {'ratio':>5} {'link':>6} {'transfer':>8} {'driver':>6} {'plan':8} {'slowdown':>8} {'from 3rd':>8} "
        f"{'bound':>7} {'eff.':>6} {'told':>6} {'in GiB':>7} {'out GiB':>7} {'stalled ms':>10} {'late %':>7} {'calls/unit':>10} "
        f"{'took s':>7}",
        flush=True,
    )


def show_row(row, kept):
    """kept: it was there already."""
    head = (
        f"{row['job']:12} {row['ratio']:5g} {row['link']:>6} {row['transfer']:8g} x{row['driver_scale']:<5g} {row['plan']:8}"
    )
    if not row["fits"]:
        why = row["why"] + ("; no schedule of swaps can do it" if figures.impossible(row) else "")
        print(f"{head} {why}", flush=True)
        return
    least = row["bound"] / row["large_seconds"] if row["bound"] else None
    late = 100 * row["late_bytes"] / row["in_bytes"] if row["in_bytes"] else None
    told = "-" if row["told_bound"] == row["bound"] else figures.number(row["told_efficiency"])
    took = "kept" if kept else f"{row['replay_seconds']:.1f}"
    print(
        f"{head} {row['slowdown']:8.3f} {figures.number(row['slowdown_from_third']):>8} "
        f"{figures.number(least):>7} {figures.number(row['efficiency']):>6} {told:>6} "
        f"{row['in_bytes'] / GIB:7.2f} {row['out_bytes'] / GIB:7.2f} {row['stalled'] * 1e3:10.2f} "
        f"{figures.number(late, 2):>7} {figures.number(figures.calls_a_unit(row), 1):>10} {took:>7}",
        flush=True,
    )


def show_efficiencies(table):
    """Jobs by ratios: the efficiencies of the best plan there is, for the transfers in turn."""
    cells = collections.defaultdict(list)
    for row in table:
        if row["link"] == "scaled" and row["driver_scale"] == 1.0 and row["plan"] != "lru":
            cells[row["plan"], row["job"], row["ratio"]].append(row)
    ratios = sorted({key[2] for key in cells})
    transfers = sorted({row["transfer"] for rows_ in cells.values() for row in rows_})
    print(f"\nefficiency, at transfers of {', '.join(f'{t:g}' for t in transfers)}" + " " * 20)
    print(f"{'plan':8} {'job':12}" + "".join(f" {ratio:>20g}" for ratio in ratios))
    for plan, job in sorted({key[:2] for key in cells}):
        line = f"{plan:8} {job:12}"
        for ratio in ratios:
            by_transfer = {row["transfer"]: row for row in cells.get((plan, job, ratio), [])}
            texts = [
                "-" if t not in by_transfer else figures.number(by_transfer[t]["efficiency"]) if by_transfer[t]["fits"] else "none"
                for t in transfers
            ]
            line += f" {' '.join(texts):>20}"
        print(line)


def show_means(table):
    """Means of efficiency by plan, ratio and driver costs."""
    groups = collections.defaultdict(list)
    for row in table:
        if row["transfer"] is not None and not figures.impossible(row):
            groups[row["driver_scale"], row["plan"], row["ratio"]].append(row)
    ratios = sorted({row["ratio"] for row in table})
    print("\nmean efficiency, by what the cache's driver calls cost" + "".join(f" {ratio:>8g}" for ratio in ratios))
    for scale, plan in sorted({key[:2] for key in groups}):
        line = f"  driver costs x{scale:<4g} {plan:30}  "
        for ratio in ratios:
            found = groups.get((scale, plan, ratio), [])
            line += f" {figures.number(figures.mean([row['efficiency'] for row in found if row['fits']])):>8}"
        print(line)


def show_figures(table):
    found = figures.figures(table)
    print(f"\n{'figure':52} {'to reach':36} {'reached':44} {'short':>9}")
    for figure in found:
        short = "-" if figure.short is None else f"{figure.short} of {figure.rows}"
        print(f"{figure.name:52} {figure.target:36} {figure.reached:44} {short:>9}  {figure.verdict}")
    for name, (ratio, count) in compared(table).items():
        print(f"{name:52} {'times as fast':36} {figures.number(ratio, 2)} (mean of {count})")


def compared(table):
    """{a plan against another: (its mean, of how many rows)}"""
    return {
        f"{plan} against {name}": figures.ratios_to(table, plan, value)
        for plan in ("greedy", "optimal")
        for name, value in (
            ("lru without prefetch", lambda row: row["round_seconds"]),
            ("demand paging as published", lambda row: row["demand_paging_seconds"]),
        )
    }


def main():
    options = parse_arguments()
    subprocess.run(["make", "-s", "-C", runs.BUILD, "all"], check=True, stdout=sys.stderr)
    model = rows.file_hash(rows.MACHINE)
    try:
        jobs = [rows.Job(recording.record(name, options.rounds, rows.live_bytes)) for name in options.jobs]
        print(f"all times are modelled; model/machine.h {model}; plans start cold; bound from below")
        for job in jobs:
            print(
                f"  {job.name:12} {job.launches:5} launches a round, {job.rounds} rounds; live {job.live / GIB:.1f} GiB "
                f"(a byte stands for {job.scale:g}), largest operation {100 * job.largest / job.live:.1f} %, "
                f"compute {job.compute * 1e3:.1f} ms; trace {job.key}"
            )
        table = Table(options, jobs, model)
        show_head()
        table.measure()
        table.progress.clear()
    except recording.Failed as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if len(table.rows) < len(table.wanted):
        print(f"NOTE: the time was over: {len(table.rows)} of {len(table.wanted)} rows")
    table.write()
    show_efficiencies(table.rows)
    show_means(table.rows)
    show_figures(table.rows)
    wrong = figures.too_good(table.rows)
    for row in wrong:
        machine = " ".join(str(row[name]) for name in ("job", "ratio", "link", "transfer", "plan", "driver_scale"))
        print(f"FAIL: efficiency {row['efficiency']:.4f} is above {figures.MOST_EFFICIENT}: {machine}")
    coarse = [row for row in table.rows if row["bound_refinement"] is not None and row["bound_refinement"] >= 0.01]
    if coarse:
        worst = max(row["bound_refinement"] for row in coarse)
        print(f"NOTE: the bound's last refinements moved it by 1 % or more in {len(coarse)} rows, at most {100 * worst:.1f} %")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
