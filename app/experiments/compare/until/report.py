"""Labels until a target: how many labels, or seconds, strategies need in finished comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from closecall.app.display.strategy_labels import name_of
from closecall.app.experiments.bench.report import show_table, write_json
from closecall.app.experiments.compare.measures import Measures
from closecall.app.experiments.compare.results import Floats, RaceResults, about, read_finished
from closecall.app.experiments.compare.until.censored import MedianRatio, Pairs, median_ratio
from closecall.app.experiments.compare.until.supervision import full_supervision
from closecall.app.experiments.compare.until.targets import TARGETS, first_round
from closecall.app.experiments.compare.wording import figure, lane_label
from closecall.core.errors import InputError
from closecall.core.evaluation.held_out_scorer import PRECISION, Accuracy

FACTORS = (1.0, 1.25, 1.5, 2.0, 4.0)
"""Factors of the performance profile."""


def labels_until(
    outs: Sequence[Path], base: str, label_seconds: float | None, json_file: Path | None
) -> None:
    """Print full supervision, the labels until each target, their ratio to a baseline's, and the profile.

    Parameters
    ----------
    outs : sequence of Path
        Folders of finished comparisons.
    base : str
        Strategy or peer that the others are compared with, by name.
    label_seconds : float or None
        Seconds that a label takes. If given, count seconds of selection and labeling instead of labels.
    json_file : Path or None
        Where the rows and the profile are written as JSON.

    Raises
    ------
    InputError
        If a comparison is unfinished, or if the baseline did not run to the end in one of them.
    """
    rows, pools, supervised = [], [], {}
    for out in outs:
        results = read_finished(out)
        full = full_supervision(out, results)
        supervised[str(out)] = supervision_rows(results, full)
        measures = Measures(results, label_seconds or 0.0)
        pools.append({"out": str(out), **about(results.pool), "races": len(results.units)})
        rows += until_rows(str(out), measures, full, base, is_in_seconds=label_seconds is not None)
    several = together(rows) if len(outs) > 1 else []
    unit = "seconds" if label_seconds is not None else "labels"
    for out in dict.fromkeys(row["comparison"] for row in rows):
        click.echo(f"\n{out}: under full supervision")
        measured = ("class", "AUROC", "average precision", f"recall at precision {PRECISION:g}")
        show_table(measured, [_line_of_class(row) for row in supervised[out]])
        click.echo(f"\n{out}: {unit} until a target, the median of all races")
        lines = [_line(row) for row in rows if row["comparison"] == out]
        show_table(("target", "strategy", "reached", unit, f"share of {base}’s"), lines, n_left=2)
    if several:
        click.echo(f"\nAll races of the {len(outs)} comparisons together, share of {base}’s {unit}")
        lines = [(row["target"], lane_label(row["strategy"]), _ratio(row["ratio"])) for row in several]
        show_table(("target", "strategy", "median (95 % interval)"), lines, n_left=2)
    profile = performance_profile(rows)
    click.echo(f"\nShare of comparisons and targets on which a strategy needs at most N × the fewest {unit}")
    head = ("strategy", *(f"{factor:g} ×" for factor in FACTORS))
    show_table(head, [(lane_label(name), *map("{:.0%}".format, shares)) for name, shares in profile.items()])
    write_json(
        json_file,
        {
            "unit": unit,
            "base": base,
            "pools": pools,
            "full_supervision": supervised,
            "rows": [*map(_as_json, rows)],
            "together": [*map(_as_json, several)],
            "profile": profile,
        },
    )


def supervision_rows(results: RaceResults, full: Sequence[Accuracy]) -> list[dict[str, Any]]:
    """Return the accuracy under full supervision of each class; with a prevalence, of each race.

    Parameters
    ----------
    results : RaceResults
        Results of the comparison.
    full : sequence of Accuracy
        Accuracy under full supervision in each race.

    Returns
    -------
    list of dict
        Rows with the keys ``class`` and ``run`` (None if it is the same for all runs), and the fields of
        `Accuracy`.
    """
    rows = {}
    for unit, own in zip(results.units, full, strict=True):
        run = None if results.plan.prevalence is None else unit.run
        name = results.pool.classes[unit.positive]
        rows[unit.positive, run] = {"class": name, "run": run, **own._asdict()}
    return list(rows.values())


def until_rows(
    comparison: str, measures: Measures, full: Sequence[Accuracy], base: str, *, is_in_seconds: bool
) -> list[dict[str, Any]]:
    """Return one row for each target and each strategy that ran to the end of all races.

    Returns
    -------
    list of dict
        Rows with the keys ``comparison``, ``target``, ``strategy``, ``reached`` (share of the races that
        reached the target), ``median`` (None if fewer than half of the races reached it), ``pairs``: the
        `Pairs` of waiting times with the baseline, and ``ratio``: their `MedianRatio`. The last two are None
        for the baseline itself.
    """
    bases = [name for name in measures.whole if base in (name, name_of(name))]
    if not bases:
        raise InputError(f"{comparison} has no {base} that ran to the end of all races")
    rows = []
    for target in TARGETS:
        rounds = {name: first_round(measures.results, target, full, name) for name in measures.whole}
        waits = {name: _waits(measures, name, own, is_in_seconds) for name, own in rounds.items()}
        for name, (times, limit) in waits.items():
            base_times, base_limit = waits[bases[0]]
            pairs = None
            if name != bases[0]:
                limits = np.column_stack([limit, base_limit])
                pairs = Pairs(times, base_times, limits, measures.results.classes)
            median = float(np.median(times))
            rows.append(
                {
                    "comparison": comparison,
                    "target": target.name,
                    "strategy": name,
                    "reached": float(np.isfinite(times).mean()),
                    "median": median if math.isfinite(median) else None,
                    "pairs": pairs,
                    "ratio": pairs and median_ratio(pairs),
                }
            )
    return rows


def together(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the ``target``, the ``strategy``, and the ``ratio`` over the races of all comparisons.

    Strategies that do not take part in all comparisons are left out. A class that is learned in two
    comparisons counts as two clusters.
    """
    pairs: dict[tuple[str, str], list[Pairs]] = {}
    for row in rows:
        if row["pairs"] is not None:
            pairs.setdefault((row["target"], row["strategy"]), []).append(row["pairs"])
    n = len({row["comparison"] for row in rows})
    return [
        {"target": target, "strategy": strategy, "ratio": median_ratio(Pairs.joined(own))}
        for (target, strategy), own in pairs.items()
        if len(own) == n
    ]


def performance_profile(rows: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Return, for each strategy, the share of comparisons and targets on which it is close to the best.

    Close means that its median is at most a factor times the smallest median; there is one share for each of
    `FACTORS` (Dolan and Moré, Mathematical Programming 91, 2002). Targets that no strategy reached in half of
    the races are left out. A strategy that takes no part in a comparison is not close there.
    """
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["median"] is not None:
            key = row["comparison"], row["target"]
            best[key] = min(best.get(key, math.inf), row["median"])
    names = dict.fromkeys(row["strategy"] for row in rows)
    shares = {name: np.zeros(len(FACTORS)) for name in names}
    for row in rows:
        least = best.get((row["comparison"], row["target"]))
        if least is not None and row["median"] is not None:
            shares[row["strategy"]] += row["median"] <= np.array(FACTORS) * least
    return {name: (own / max(len(best), 1)).tolist() for name, own in shares.items()}


def _waits(measures: Measures, name: str, rounds: Floats, is_in_seconds: bool) -> tuple[Floats, Floats]:
    """Return the waiting time of each race, infinity if censored, and the time of its last round.

    The labels that a race begins with count.
    """
    results = measures.results
    if is_in_seconds:
        spent = results.n_first * measures.label_seconds + measures.spent(name)
    else:
        spent = np.tile(results.n_first + np.arange(results.plan.iterations + 1.0), (len(rounds), 1))
    known = np.isfinite(rounds)
    places = np.where(known, rounds, 0).astype(np.int64)
    return np.where(known, spent[np.arange(len(rounds)), places], np.inf), spent[:, -1]


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without its pairs, with the ratio as a dict, in which None stands for infinity."""
    ratio = row["ratio"] and asdict(row["ratio"])
    return {
        **{key: value for key, value in row.items() if key != "pairs"},
        "ratio": ratio and {key: None if value == math.inf else value for key, value in ratio.items()},
    }


def _line_of_class(row: dict[str, Any]) -> tuple[str, ...]:
    of_run = "" if row["run"] is None else f", run {row['run'] + 1}"
    values = (row[measure] for measure in ("auroc", "average_precision", "recall"))
    return (row["class"] + of_run, *("–" if value is None else f"{value:.4f}" for value in values))


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    median = "–" if row["median"] is None else f"{row['median']:,.0f}"
    ratio = "" if row["ratio"] is None else _ratio(row["ratio"])
    return row["target"], lane_label(row["strategy"]), f"{row['reached']:.0%}", median, ratio


def _ratio(ratio: MedianRatio) -> str:
    interval = "" if ratio.low is None or ratio.high is None else f" ({_range(ratio.low, ratio.high)})"
    return _range(ratio.least, ratio.most) + interval


def _range(low: float, high: float) -> str:
    """Return a range as text: "0.14", "0.14 to 0.3", "≥ 0.14", "≤ 0.3", or "open" if nothing is known."""
    if low == high:
        return figure(low)
    if high == math.inf:
        return "open" if low == 0 else f"≥ {figure(low)}"
    return f"≤ {figure(high)}" if low == 0 else f"{figure(low)} to {figure(high)}"
