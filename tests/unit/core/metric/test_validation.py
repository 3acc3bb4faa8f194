"""The slack of a metric is chosen by cross-validation, held against a plain one."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.evaluation.auroc import auroc
from closecall.core.hashing import LearnedKernelHash
from closecall.core.metric import ITML, Constraints, ExplicitMetric
from closecall.core.metric.validation import FOLDS, GAMMAS, choose_gamma, folds_of
from closecall.core.similar.answers import MAX_PASSES, pairs_of, validated, validated_kernel


def test_folds_have_the_same_share_of_each_class():
    """Within one row, whatever the classes; the same for the same seed."""
    classes = np.repeat([0, 1, 2], [5, 50, 17])
    folds = folds_of(classes, 3, seed=1)
    counts = np.array([np.bincount(folds[classes == name], minlength=3) for name in range(3)])
    assert (counts.max(axis=1) - counts.min(axis=1) <= 1).all()
    assert np.array_equal(folds, folds_of(classes, 3, seed=1))
    assert not np.array_equal(folds, folds_of(classes, 3, seed=2))


def test_the_best_on_average_is_chosen_and_of_equal_ones_the_first():
    """Of the γ with which a metric could be learned in every fold."""
    classes = np.arange(12) % 2
    scores = {1.0: 0.5, 0.1: 0.9, 0.01: 0.9, 0.001: 0.7}

    def learn(train, gamma):
        if gamma == impossible and 0 not in train:
            raise InputError("the constraints contradict each other")
        return ExplicitMetric(np.eye(1) * gamma)

    def score(metric, train, test):
        assert sorted([*train, *test]) == list(range(12))
        return scores[float(metric.G[0, 0])]

    impossible = None
    found = choose_gamma(classes, learn, score)
    assert (found.gamma, found.scores) == (0.1, pytest.approx(scores))
    impossible = 0.1
    assert choose_gamma(classes, learn, score).gamma == 0.01
    assert choose_gamma(classes, learn, score, gammas=(0.1,)).gamma == 0.1


def answers(n: int, d: int, informative: float, seed: int):
    """Unit rows of which the first feature tells a yes from a no, the more the larger `informative`."""
    rng = np.random.default_rng(seed)
    yes = np.arange(n) % 2 == 0
    X = rng.standard_normal((n, d))
    X[:, 0] += informative * np.where(yes, 1, -1)
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), yes


def plainly(X, yes, seed):
    """The mean over folds of the share of (yes, no) pairs in the right order, by γ."""
    folds, found = folds_of(yes, FOLDS, seed), {}
    for gamma in GAMMAS:
        each = []
        for fold in range(FOLDS):
            own, others = X[folds != fold], X[folds == fold].astype(np.float64)
            near, far = pairs_of(yes[folds != fold], 500, seed)
            given = Constraints.from_pairs(own, near, far, random_state=seed)
            metric = ITML(gamma=gamma, max_passes=MAX_PASSES, random_state=seed).fit(own, given).metric_
            G = metric.explicit().G if hasattr(metric, "explicit") else metric.G
            Q, Y = own[yes[folds != fold]] @ G.T, others @ G.T
            cosines = Q @ Y.T / np.linalg.norm(Q, axis=1)[:, None] / np.linalg.norm(Y, axis=1)
            near = cosines.max(axis=0)
            pairs = near[yes[folds == fold]][:, None] - near[~yes[folds == fold]]
            each.append(np.mean(np.sign(pairs) / 2 + 0.5))
        found[gamma] = np.mean(each)
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_answers_are_validated_as_a_plain_loop_does(seed):
    """By the order of the answers that were left out."""
    X, yes = answers(90, 12, 1.0, seed)
    found, plain = validated(X, yes, seed=seed), plainly(X, yes, seed)
    assert found.scores == pytest.approx(plain, abs=1e-3)
    assert found.gamma == max(found.scores, key=found.scores.get)
    assert found == validated(X, yes, seed=seed)


def test_the_kernel_of_answers_is_validated_as_a_plain_loop_does():
    """By the order of the answers that were left out, under the kernel of the others."""
    X, yes = answers(60, 12, 1.0, 0)
    found, folds = validated_kernel(X, yes, n_anchors=20, seed=0), folds_of(yes, FOLDS, 0)
    for gamma in GAMMAS:
        each = []
        for fold in range(FOLDS):
            own, new = folds != fold, folds == fold
            family = LearnedKernelHash(gamma=gamma, n_anchors=20, n_pairs=1000, n_steps=0, n_functions=1)
            near = family.fit(X[own], yes[own]).between(X[own & yes], X[new]).max(axis=0)
            pairs = near[yes[new]][:, None] - near[~yes[new]]
            each.append(np.mean(np.sign(pairs) / 2 + 0.5))
        assert found.scores[gamma] == pytest.approx(np.mean(each))
    assert found.gamma == max(found.scores, key=found.scores.get)


def judged(X, yes, gamma, new, truth) -> float:
    """The share of (yes, no) pairs of new rows in the right order under the metric of all answers."""
    near, far = pairs_of(yes, 1000, 0)
    given = Constraints.from_pairs(X, near, far)
    metric = ITML(gamma=gamma, max_passes=MAX_PASSES).fit(X, given).metric_
    norms = [np.sqrt(metric.squared_norms(rows)) for rows in (X[yes], new)]
    return auroc((metric.inner(X[yes], new) / norms[0][:, None] / norms[1]).max(axis=0), truth)


@pytest.mark.parametrize(("n", "d", "expected"), [(60, 60, {1.0}), (400, 4, {0.01, 0.001})])
def test_the_chosen_slack_is_good_for_new_items(n, d, expected):
    """Little slack where few answers must say much, and much slack where the features say it already."""
    for seed in range(3):
        X, yes = answers(n, d, 2.0, seed)
        chosen = validated(X, yes).gamma
        assert chosen in expected
        other = min(GAMMAS) if chosen == max(GAMMAS) else max(GAMMAS)
        new = answers(2_000, d, 2.0, seed + 100)
        assert judged(X, yes, chosen, *new) > judged(X, yes, other, *new)
