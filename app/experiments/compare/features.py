"""Comparison of features: the same races on pools of the same images with different features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.display.strategy_labels import name_of
from closecall.app.experiments.bench.report import show_table, write_json
from closecall.app.experiments.compare.accuracy import KINDS, accuracy_after, reached
from closecall.app.experiments.compare.results import Floats, RaceResults, about, read_finished
from closecall.app.experiments.compare.statistics import Interval, interval
from closecall.app.experiments.compare.wording import RANDOM, lane_label, points
from closecall.core.duplicates import unrepeated_held_out
from closecall.core.errors import InputError

_SAME = ("classes", "runs", "first", "C", "class_weight", "noise", "seed", "prevalence")
"""Options that must be equal, so that the races begin with the same labels of the same items."""


def compare_features(outs: Sequence[Path], numbers: Sequence[int], json_file: Path | None) -> None:
    """Print the accuracy for each pool, and the differences between pools and between strategies.

    Parameters
    ----------
    outs : sequence of Path
        Folders of at least two finished comparisons. The pools must have the same items and classes.
    numbers : sequence of int
        Numbers of labels after which accuracies are compared.
    json_file : Path or None
        Where the rows are written as JSON.

    Raises
    ------
    InputError
        If a comparison is unfinished, or if comparisons differ in their items or in options other than the
        strategies and the number of rounds.
    """
    found = [read_finished(out) for out in outs]
    for out, results in zip(outs[1:], found[1:], strict=True):
        _require_same(found[0], results, outs[0], out)
    rows = feature_rows(outs, found, numbers)
    if not rows:
        raise InputError("the comparisons have no strategy in common that reached these numbers of labels")
    head = ("labels", "measure", "strategy", "features", "value", "more than random", f"more than {outs[0]}")
    show_table(head, [_line(row) for row in rows], n_left=4)
    write_json(json_file, {"pools": [about(results.pool) for results in found], "rows": rows})


def feature_rows(
    outs: Sequence[Path], found: Sequence[RaceResults], numbers: Sequence[int]
) -> list[dict[str, Any]]:
    """Return one row for each number of labels, measure, strategy and comparison.

    Returns
    -------
    list of dict
        Rows with the keys ``labels``, ``measure`` (one of `KINDS`), ``strategy``, ``features`` (the
        comparison's folder) and ``value``, and with two differences: ``above_random`` to random labels on the
        same pool, and ``above_first`` to the same strategy on the first pool. These three are dicts with the
        keys ``mean``, ``low`` and ``high``, in points. A difference is None where a row has no counterpart.
    """
    common = [name for name in found[0].names if all(name in results.names for results in found)]
    at = [n for n in numbers if all(n in reached(results, numbers) for results in found)]
    rows = []
    for n_labels, kind, name in product(at, KINDS, common):
        first = accuracy_after(found[0], kind, name, n_labels)
        for out, results in zip(outs, found, strict=True):
            values = accuracy_after(results, kind, name, n_labels)
            if np.isnan(values).any():
                continue
            measured = partial(_measured, classes=results.classes)
            random = next((one for one in results.names if name_of(one) == RANDOM), None)
            rows.append(
                {
                    "labels": n_labels,
                    "measure": kind,
                    "strategy": name,
                    "features": str(out),
                    "value": measured(values),
                    "above_random": None
                    if random in (None, name)
                    else measured(values - accuracy_after(results, kind, str(random), n_labels)),
                    "above_first": None
                    if results is found[0] or np.isnan(first).any()
                    else measured(values - first),
                }
            )
    return rows


def _measured(values: Floats, classes: NDArray[np.int64]) -> dict[str, Any]:
    return asdict(interval(values, classes))


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    more = (row["above_random"], row["above_first"])
    return (
        str(row["labels"]),
        KINDS[row["measure"]],
        lane_label(row["strategy"]),
        row["features"],
        f"{row['value']['mean']:.1f}",
        *("" if one is None else points(Interval(**one)).replace(" points", "") for one in more),
    )


def _require_same(first: RaceResults, other: RaceResults, first_out: Path, out: Path) -> None:
    for name in _SAME:
        if getattr(first.plan, name) != getattr(other.plan, name):
            raise InputError(f"{first_out} and {out} differ in {name}: compare features by the same races")
    ours, theirs = first.pool, other.pool
    our_judges, their_judges = unrepeated_held_out(ours), unrepeated_held_out(theirs)
    if (
        ours.classes != theirs.classes
        or not np.array_equal(ours.ids, theirs.ids)
        or not np.array_equal(ours.truth(ours.ids), theirs.truth(theirs.ids))
        or not np.array_equal(our_judges.ids, their_judges.ids)
        or not np.array_equal(our_judges.truth, their_judges.truth)
    ):
        raise InputError(
            f"the pools of {first_out} and {out} don't have the same items and held-out items, "
            "of the same classes"
        )
