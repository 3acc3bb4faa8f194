"""Accuracy under full supervision: of classifiers trained on all labels of a pool."""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.experiments.compare.race_plan import RacePlan
from closecall.core.errors import InputError
from closecall.core.evaluation.held_out_scorer import Accuracy, HeldOutScorer
from closecall.core.files.durable import disk_trouble, replace_file
from closecall.core.learning.round import is_positive
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import Rows, as_sparse, is_sparse
from closecall.core.pool.pool import Pool

FULL = "full-supervision.json"

MOST_LABELS = 50_000
"""Maximum number of labels for full supervision. From a larger pool, this number of items is drawn."""


def full_supervision(out: Path, plan: RacePlan, pool: Pool) -> dict[int, Accuracy]:
    """Return the accuracy of a classifier trained on all labels of the pool, for each class of a comparison.

    The classifier is scikit-learn's ``LinearSVC`` with the comparison's objective. Each result is kept in the
    comparison's folder `out`, in the file `FULL`.

    Raises
    ------
    InputError
        If the held-out items don't include a class, or if the file is damaged.
    """
    known = _read(out / FULL)
    missing = [positive for positive in plan.classes if positive not in known]
    if not missing:
        return known
    rows = np.arange(len(pool))
    if len(rows) > MOST_LABELS:
        rows = np.sort(np.random.default_rng(plan.seed).choice(rows, MOST_LABELS, replace=False))
    X, truth = pool.rows(rows), pool.truth(pool.ids[rows])
    for positive in missing:
        click.echo(f"{out}: full supervision of {pool.classes[positive]} …", err=True)
        hyperplane = _trained(X, is_positive(truth, positive), plan)
        known[positive] = HeldOutScorer(pool.held_out, positive)([hyperplane])[0]
        if known[positive].auroc is None:
            raise InputError(f"the held-out items of {pool.path} have no {pool.classes[positive]}")
        contents = {str(number): own._asdict() for number, own in known.items()}
        with disk_trouble(out / FULL):
            replace_file(out / FULL, (json.dumps(contents, indent=1) + "\n").encode())
    return known


def _trained(X: Rows, y: NDArray[np.bool_], plan: RacePlan) -> Hyperplane:
    from sklearn.svm import LinearSVC

    svm = LinearSVC(
        C=plan.C, loss="hinge", class_weight=plan.class_weight, max_iter=20_000, random_state=plan.seed
    )
    svm.fit(as_sparse(X).tocsr() if is_sparse(X) else X, y)
    return Hyperplane(svm.coef_[0], float(svm.intercept_[0]))


def _read(path: Path) -> dict[int, Accuracy]:
    """Read the results of earlier calls; there are none if the file is missing."""
    if not path.is_file():
        return {}
    try:
        contents = json.loads(path.read_text("utf-8"))
        return {int(positive): Accuracy(**own) for positive, own in contents.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged: delete it, and the same command makes it again") from error
