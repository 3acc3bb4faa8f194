"""Hashing under a learned metric: what the contract suite doesn't say already."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.hashing import MetricLSH, RandomHyperplaneLSH
from closecall.core.metric import ITML, Constraints, ExplicitMetric, ImplicitMetric
from tests.yardsticks import explicit

D = 7


def learned(sparse=False) -> tuple[np.ndarray, ImplicitMetric]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, D)).astype(np.float32)
    X[:, 0] += np.arange(80) % 2
    X[np.abs(X) < 0.4] = 0
    rows = csr_array(X) if sparse else X
    given = Constraints.from_labels(rows, np.arange(80) % 2, n_pairs=60)
    metric = ITML(form="implicit").fit(rows, given).metric_
    assert isinstance(metric, ImplicitMetric)
    return X, metric


@pytest.mark.parametrize("centred", [True, False])
def test_implicitly_the_same_bits_come_out(centred):
    """Of the same r, whether rᵀG is formed or not: eq. 8 equals eq. 6."""
    X, metric = learned()
    codes = [
        MetricLSH(metric=own, centred=centred, n_functions=1000, random_state=3).fit(X).hash_points(X)
        for own in (metric, explicit(metric))
    ]
    differing = (codes[0].unpacked() != codes[1].unpacked()).mean()
    assert differing < 1e-4


def test_bits_are_the_signs_of_the_mapped_rows():
    """Eq. 6 by hand: rᵀG(x − μ), with the r that plain LSH draws from the same seed."""
    X, metric = learned()
    hasher = MetricLSH(metric=metric, n_functions=300, random_state=5).fit(X)
    R = RandomHyperplaneLSH(n_functions=300, random_state=5).fit(X).vectors_
    by_hand = (X - X.mean(axis=0)) @ explicit(metric).G.T @ R >= 0
    assert (hasher.hash_points(X).unpacked() != by_hand).mean() < 1e-4


def test_sparse_rows_get_the_bits_of_the_same_functions():
    """Sparse or dense, the functions of a fitted family are the same."""
    X, metric = learned(sparse=True)
    hasher = MetricLSH(metric=metric, n_functions=1000).fit(csr_array(X))
    differing = hasher.hash_points(csr_array(X)).unpacked() != hasher.hash_points(X).unpacked()
    assert differing.mean() < 1e-4


def test_the_identity_leaves_plain_lsh():
    """G = I changes no bit."""
    X, _ = learned()
    plain = RandomHyperplaneLSH(n_functions=500).fit(X).hash_points(X)
    under = MetricLSH(metric=ExplicitMetric(np.eye(D)), n_functions=500).fit(X).hash_points(X)
    assert np.array_equal(plain.packed, under.packed)


def test_a_metric_of_other_rows_is_refused():
    """Or none at all."""
    X, metric = learned()
    with pytest.raises(InputError, match="metric has 7 features, but the rows have 3"):
        MetricLSH(metric=metric).fit(X[:, :3])
    with pytest.raises(InputError, match="needs a metric, got None"):
        MetricLSH().fit(X)
