"""Accuracy under full supervision: of classifiers trained on all labels of a pool."""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.experiments.compare.race_plan import RacePlan, RaceUnit
from closecall.app.experiments.compare.results import RaceResults
from closecall.core.errors import InputError
from closecall.core.evaluation.held_out_scorer import Accuracy
from closecall.core.files.durable import disk_trouble, replace_file
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import Rows, as_sparse, is_sparse
from closecall.core.simulation.drawing import ItemsByClass
from closecall.core.simulation.race import Race

FULL = "full-supervision.json"

MOST_LABELS = 50_000
"""Maximum number of labels for full supervision. From a larger pool, this number of items is drawn."""


def full_supervision(out: Path, results: RaceResults) -> list[Accuracy]:
    """Return the accuracy of a classifier trained on all labels of the pool, for each race of a comparison.

    The classifier is scikit-learn's ``LinearSVC`` with the comparison's objective. Items that are hidden from
    a race are left out. Accuracies are kept in the comparison's folder `out`, in the file `FULL`.

    Raises
    ------
    InputError
        If the held-out items don't include both classes, or if the file is damaged.
    """
    plan, pool = results.plan, results.pool
    known, keys = _read(out / FULL), [_key(plan, unit) for unit in results.units]
    items = None
    for key, unit in zip(keys, results.units, strict=True):
        if key in known:
            continue
        items = items or ItemsByClass(pool, plan.first)
        click.echo(f"{out}: full supervision of {pool.classes[unit.positive]} …", err=True)
        race = Race(pool, {}, plan.course(unit), items=items)
        ids = np.setdiff1d(pool.ids, race.hidden)
        if len(ids) > MOST_LABELS:
            ids = np.sort(np.random.default_rng(plan.seed).choice(ids, MOST_LABELS, replace=False))
        known[key] = race.accuracy_of([_trained(pool.rows_of(ids), race.is_positive(ids), plan)])[0]
        if known[key].auroc is None:
            raise InputError(f"all held-out items of {pool.path} are positive, or all are negative")
        contents = {name: own._asdict() for name, own in known.items()}
        with disk_trouble(out / FULL):
            replace_file(out / FULL, (json.dumps(contents, indent=1) + "\n").encode())
    return [known[key] for key in keys]


def _key(plan: RacePlan, unit: RaceUnit) -> str:
    """Return the key of a race in the file. With a prevalence, each run has other positives."""
    return str(unit.positive) if plan.prevalence is None else f"{unit.positive} {unit.run}"


def _trained(X: Rows, y: NDArray[np.bool_], plan: RacePlan) -> Hyperplane:
    from sklearn.svm import LinearSVC

    svm = LinearSVC(
        C=plan.C, loss="hinge", class_weight=plan.class_weight, max_iter=20_000, random_state=plan.seed
    )
    svm.fit(as_sparse(X).tocsr() if is_sparse(X) else X, y)
    return Hyperplane(svm.coef_[0], float(svm.intercept_[0]))


def _read(path: Path) -> dict[str, Accuracy]:
    """Read the results of earlier calls; there are none if the file is missing."""
    if not path.is_file():
        return {}
    try:
        contents = json.loads(path.read_text("utf-8"))
        return {key: Accuracy(**own) for key, own in contents.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged: delete it, and the same command makes it again") from error
