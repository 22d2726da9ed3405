"""The figures of the bench: what its rows come to, against what is to be reached.

A mean is geometric and over all rows it speaks of, those that fall short included; a row where a job that could fit did not
is one that falls short, and is said beside the mean, which has no number for it.
"""

import dataclasses
import math

MOST_EFFICIENT = 1.01  # more is an error of the bench or of the bound


@dataclasses.dataclass
class Figure:
    name: str
    target: str
    reached: str
    short: int | None  # rows that fall short; None: it was not measured
    rows: int

    @property
    def verdict(self):
        return "not measured" if self.short is None else "reached" if self.short == 0 else "short"


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def number(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}"


def calls_a_unit(row):
    return row["binding_calls"] / row["moved_units"] if row["moved_units"] else None


def impossible(row):
    """No schedule of swaps can do it: one operation needs more than there is."""
    return row["bound"] is None and not row["fits"]


def _select(rows, plan, keep):
    return [row for row in rows if row["plan"] == plan and row["driver_scale"] == 1.0 and keep(row) and not impossible(row)]


def _missing(rows):
    return f", {sum(not row['fits'] for row in rows)} without a result" if any(not row["fits"] for row in rows) else ""


def _unmeasured(name, target):
    return Figure(name, target, "-", None, 0)


def _each(name, target, rows, value, most, least=False, digits=3):
    """A limit for each row. Rows that have no value are not measured, unless the job did not fit: then they fall short."""
    values = [value(row) for row in rows if row["fits"]]
    if not rows or (None in values):
        return _unmeasured(name, target)
    wrong = sum(v < most if least else v > most for v in values) + sum(not row["fits"] for row in rows)
    if not values:
        return Figure(name, target, "no result", wrong, len(rows))
    worst = min(values) if least else max(values)
    middle = mean(values) if min(values) > 0 else None
    reached = f"worst {number(worst, digits)}, mean {number(middle, digits)}{_missing(rows)}"
    return Figure(name, target, reached, wrong, len(rows))


def _efficiency(name, rows, least_mean, least_row=None, value="efficiency"):
    target = f"mean at least {least_mean}" + (f", none below {least_row}" if least_row else "")
    if not rows:
        return _unmeasured(name, target)
    values = [row[value] for row in rows if row["fits"]]
    reached = f"mean {number(mean(values))}, worst {number(min(values, default=None))}{_missing(rows)}"
    short = sum(v < least_row for v in values if least_row) + sum(not row["fits"] for row in rows)
    if not short and mean(values) < least_mean:
        short = sum(v < least_mean for v in values)
    return Figure(name, target, reached, short, len(rows))


def ratios_to(rows, plan, value):
    """Geometric mean of value(other row) over the plan's time, for the same job and machine; and of how many."""
    def machine(row):
        return row["job"], row["ratio"], row["link"], row["transfer"], row["driver_scale"]

    others = {machine(row): value(row) for row in rows if row["plan"] == "lru" and row["fits"]}
    found = [
        others[machine(row)] / row["round_seconds"]
        for row in _select(rows, plan, lambda row: row["ratio"] > 1)
        if row["fits"] and machine(row) in others
    ]
    return mean(found), len(found)


def figures(rows):
    """Those of the bench that its rows can say. rows may be a part: then what is missing is not measured."""
    def fits(row):
        return row["ratio"] == 1

    def spills(row):
        return row["ratio"] > 1

    def moves(row):
        return spills(row) and (not row["fits"] or row["moved_units"])

    planned = "optimal"
    found = [
        _each("slowdown at 1.0 (fits)", "at most 1.01", _select(rows, planned, fits), lambda r: r["slowdown"], 1.01),
        _efficiency("efficiency up to 1.5, planned", _select(rows, planned, lambda r: 1 < r["ratio"] <= 1.5), 0.97, 0.92),
        _efficiency("efficiency at 2.0, planned", _select(rows, planned, lambda r: r["ratio"] == 2), 0.94, 0.88),
        _efficiency("efficiency up to 1.5, greedy", _select(rows, "greedy", lambda r: 1 < r["ratio"] <= 1.5), 0.85),
    ]
    # Where a job frees late what is dead, a bound that knows better applies to nobody.
    for name, keep, least in (
        ("up to 1.5", lambda r: 1 < r["ratio"] <= 1.5, (0.97, 0.92)),
        ("at 2.0", lambda r: r["ratio"] == 2, (0.94, 0.88)),
    ):
        chosen = _select(rows, planned, keep)
        if any(row["fits"] and row["told_efficiency"] != row["efficiency"] for row in chosen):
            found.append(_efficiency(f"efficiency {name}, planned, by deaths as told", chosen, *least, value="told_efficiency"))
    timed = [row for row in rows if row.get("plan_seconds") is not None]
    found.append(_each("seconds to the optimal plan, one core", "at most 60", timed, lambda r: r["plan_seconds"], 60, digits=1))
    for plan in ("optimal", "greedy"):
        found.append(
            _each(
                f"binding calls a round, fits, {plan}", "0", _select(rows, plan, fits), lambda r: r["binding_calls"], 0, digits=1
            )
        )
        found.append(
            _each(f"binding calls a moved unit, {plan}", "at most 4", _select(rows, plan, moves), calls_a_unit, 4, digits=2)
        )
    found += [
        _each(
            "in-bytes over (live - HBM), unrolled training",
            "at most 1.15",
            _select(rows, planned, lambda r: spills(r) and r["job"] == "transformer"),
            lambda r: r["in_bytes"] / (r["live_bytes"] - r["hbm_bytes"]),
            1.15,
        ),
        _each(
            "out-bytes over in-bytes",
            "at most 1.1",
            [r for r in _select(rows, planned, spills) if not r["fits"] or r["in_bytes"]],
            lambda r: r["out_bytes"] / r["in_bytes"],
            1.1,
        ),
        _each(
            "bytes there in time, where the bound has no stall",
            "at least 0.995",
            [
                r
                for r in _select(rows, planned, spills)
                if r["bound"] and r["bound"] < 1.0001 * r["compute_seconds"] and (not r["fits"] or r["in_bytes"])
            ],
            lambda r: None if r["late_bytes"] is None else 1 - r["late_bytes"] / r["in_bytes"],
            0.995,
            least=True,
            digits=4,
        ),
    ]
    return found


def too_good(rows):
    return [row for row in rows if row["fits"] and row["efficiency"] and row["efficiency"] > MOST_EFFICIENT]
