"""scripts/bench jobs: the jobs of tests/jobs/bench_*.py replayed on machines too small for them. All times are modelled.

Records each job once on the synthetic GPU, replays it for every row on every processor, computes the fluid bound for each
machine, prints one table and the figures. Exit: 0; 1 where something failed or an efficiency is above 1.01. That a figure is
not reached is no failure: it is what the table is for.
"""

import argparse
import collections
import concurrent.futures
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import figures  # noqa: E402
import recording  # noqa: E402
import rows  # noqa: E402
import runs  # noqa: E402

GIB = 1 << 30


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
    parser.add_argument("--slots", type=int, default=128, help="finest runs of launches for the bound")
    parser.add_argument("--rounds", type=int, default=8, help="recorded")
    parser.add_argument("--quick", action="store_true", help="one machine for each job: 1.25, 0.5; costs as they are")
    options = parser.parse_args()
    if options.quick:
        options.ratios, options.transfer, options.links, options.driver_scales = [1.25], [0.5], [], []
    if any(ratio < 1 for ratio in options.ratios):
        parser.error("--ratios: from 1 on")
    return options


def machines(options, jobs):
    for job in jobs:
        for ratio in options.ratios:
            for transfer in options.transfer:
                yield rows.Machine(job, ratio, transfer)
            if ratio in (1.25, 1.5):
                for link in options.links:
                    yield rows.Machine(job, ratio, None, link)


def measure(options, jobs, plans):
    """All rows: every machine and plan, then the machines with scaled links again at other driver costs."""
    wanted = [(m, plan) for m in machines(options, jobs) for plan in plans]
    wanted += [
        (rows.Machine(m.job, m.ratio, m.transfer, m.link, scale), plan)
        for scale in options.driver_scales
        for m, plan in wanted
        if m.transfer is not None and plan != "lru"
    ]
    # A bound is computed once for its machine, before the plans need it, by whoever comes first.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        bounds = {}
        for machine, _ in wanted:
            key = tuple([machine.job.name, *machine.options()])
            if key not in bounds:
                bounds[key] = pool.submit(rows.bound_of, machine, options.slots)
        for future in concurrent.futures.as_completed(bounds.values()):
            future.result()
        runs.say(f"{len(bounds)} bounds; {len(wanted)} rows to replay")
        table, shown = [], time.monotonic()
        for row in pool.map(lambda one: rows.row_of(one[0], one[1], plans[one[1]], options.slots), wanted):
            table.append(row)
            if time.monotonic() - shown > 20:
                shown = time.monotonic()
                runs.say(f"{len(table)} of {len(wanted)} rows")
        return table


def show_rows(table):
    print(
        f"\n{'job':12} {'ratio':>5} {'link':>6} {'transfer':>8} {'plan':8} {'slowdown':>8} {'from 3rd':>8} "
        f"{'bound':>7} {'eff.':>6} "
        f"{'in GiB':>7} {'out GiB':>7} {'stalled ms':>10} {'calls/unit':>10}"
    )
    for row in table:
        if row["driver_scale"] != 1.0:
            continue
        head = f"{row['job']:12} {row['ratio']:5g} {row['link']:>6} {row['transfer']:8g} {row['plan']:8}"
        if not row["fits"]:
            print(f"{head} {row['why']}" + ("; no schedule of swaps can do it" if figures.impossible(row) else ""))
            continue
        least = row["bound"] / row["compute_seconds"] if row["bound"] else None
        print(
            f"{head} {row['slowdown']:8.3f} {figures.number(row['slowdown_from_third']):>8} "
            f"{figures.number(least):>7} {figures.number(row['efficiency']):>6} "
            f"{row['in_bytes'] / GIB:7.2f} {row['out_bytes'] / GIB:7.2f} {row['stalled'] * 1e3:10.2f} "
            f"{figures.number(figures.calls_a_unit(row), 1):>10}"
        )


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
    comparisons = {}
    for plan in ("greedy", "optimal"):
        for name, value in (
            ("lru without prefetch", lambda row: row["round_seconds"]),
            ("demand paging as published", lambda row: row["demand_paging_seconds"]),
        ):
            ratio, count = figures.ratios_to(table, plan, value)
            comparisons[f"{plan} against {name}"] = ratio
            print(f"{f'{plan} against {name}':52} {'times as fast':36} {figures.number(ratio, 2)} (mean of {count})")
    return found, comparisons


def main():
    options = parse_arguments()
    subprocess.run(["make", "-s", "-C", runs.BUILD, "all", "cache/tools/hbmspill-replay", "cache/tools/hbmspill-plan"], check=True, stdout=sys.stderr)
    known, unknown = rows.plans_known()
    plans = {plan: known[plan] for plan in options.plan if plan in known}
    missing = [plan for plan in options.plan if plan in unknown]
    if missing:
        print(f"NOTE: hbmspill-replay has no --plan: no rows for {', '.join(missing)}; greedy is its default")
    model = rows.file_hash(rows.MACHINE)
    try:
        jobs = [rows.Job(recording.record(name, options.rounds, rows.live_bytes)) for name in options.jobs]
        print(f"all times are modelled; model/machine.h {model}; plans start cold; bound with at most {options.slots} runs")
        for job in jobs:
            print(
                f"  {job.name:12} {job.launches:5} launches a round, {job.rounds} rounds; live {job.live / GIB:.1f} GiB "
                f"(a byte stands for {job.scale:g}), largest operation {100 * job.largest / job.live:.1f} %, "
                f"compute {job.compute * 1e3:.1f} ms; trace {job.key}"
            )
        table = measure(options, jobs, plans)
    except recording.Failed as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    show_rows(table)
    show_means(table)
    found, comparisons = show_figures(table)
    wrong = figures.too_good(table)
    for row in wrong:
        machine = " ".join(str(row[name]) for name in ("job", "ratio", "link", "transfer", "plan", "driver_scale"))
        print(f"FAIL: efficiency {row['efficiency']:.4f} is above {figures.MOST_EFFICIENT}: {machine}")
    coarse = [row for row in table if row["bound_refinement"] is not None and row["bound_refinement"] >= 0.01]
    if coarse:
        worst = max(row["bound_refinement"] for row in coarse)
        print(f"NOTE: the bound's last refinement moved it by 1 % or more in {len(coarse)} rows, at most {100 * worst:.1f} %")
    if options.json:
        rows.write_json(
            options.json,
            {
                "modelled": True,
                "machine": model,
                "slots": options.slots,
                "traces": {job.name: job.key for job in jobs},
                "missing_plans": missing,
                "rows": table,
                "figures": [vars(figure) | {"verdict": figure.verdict} for figure in found],
                "comparisons": comparisons,
            },
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
