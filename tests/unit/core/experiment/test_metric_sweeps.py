"""Sweeps of a learned metric: what they vary, and each point against direct calls and a scan written here."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.experiment.metric_sweeps import MetricSweeps
from closecall.core.experiment.neighbours import Setting, Taught, voted
from closecall.core.experiment.queries import held_out_queries, queries_of_draws
from closecall.core.hashing import MetricLSH, RandomHyperplaneLSH
from closecall.core.pool.build import build
from closecall.core.search.orders import PermutedOrders
from tests.fakes import FakeSource

K = 5
SETTINGS = (Setting(1.0, 200), Setting(0.1, 200))
SWEEPS = MetricSweeps(bits=(32, 8), labels=(90, 30, 150), epsilons=(1.5, 0.5))


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    source = FakeSource(900, 8, classes=("a", "b", "c"), held_out=range(0, 900, 6), separation=0.6)
    return build(source, tmp_path_factory.mktemp("metric-sweeps") / "pool", threads=1)


@pytest.fixture(scope="module")
def asked(pool):
    return held_out_queries(pool, 40, 50, known=True)


@pytest.fixture(scope="module")
def rows(pool, asked):
    return list(SWEEPS.measured(pool, *asked, k=K, settings=SETTINGS, seed=3))


def test_one_parameter_varies_at_a_time(rows):
    """The others are the longest codes, the first number of labels and the first ε; no point comes twice."""
    hashed = [(32, 1.5), (8, 1.5), (32, 0.5)]
    assert SWEEPS.kept == (32, 90, 1.5)
    points = [(row["metric"], row["labels"], row["bits"], row["epsilon"]) for row in rows]
    assert len(points) == len(set(points))
    assert set(points) == {
        *(("original", None, *way) for way in [(None, None), *hashed]),
        *(("learned", 90, *way) for way in [(None, None), *hashed]),
        *(("learned", n, *way) for n in (30, 150) for way in [(None, None), (32, 1.5)]),
    }
    assert all((row["search"] == "scan") == (row["bits"] is None) for row in rows)
    assert all((row["gamma"] is None) == (row["metric"] == "original") for row in rows)
    assert {row["seed"] for row in rows} == {3}


def test_every_point_is_that_of_direct_calls(pool, asked, rows):
    """A scan is brute force; hashing ranks the rows that the published orders propose."""
    queries, choosing = asked
    sample, y = pool.rows(np.arange(len(pool))), pool.truth(pool.ids)
    X = sample.astype(np.float64)
    for row in rows:
        metric = None
        if row["labels"] is not None:
            taught = Taught.of(pool, choosing, k=K, n_labels=row["labels"], settings=SETTINGS, seed=3)
            metric = taught.metric
            assert row.items() >= taught.told.items()
        A = np.eye(8) if metric is None else metric.inner(np.eye(8), np.eye(8))
        family = RandomHyperplaneLSH if metric is None else MetricLSH
        words = {} if metric is None else {"metric": metric}
        right, searched, recall = [], [], []
        if row["search"] == "orders":
            hasher = family(**words, n_functions=row["bits"], random_state=3).fit(sample)
            orders = PermutedOrders.published(
                hasher.hash_points(sample), row["epsilon"], n_bytes=10**9, seed=3
            )
            codes = hasher.queries(queries.X)
        for i, (q, true) in enumerate(zip(queries.X.astype(np.float64), queries.truth, strict=True)):
            far = np.einsum("ij,jk,ik->i", X - q, A, X - q)
            every = np.argsort(far, kind="stable")[:K]
            near = every
            if row["search"] == "orders":
                found = orders.proposed(codes[i], len(pool))
                searched.append(len(found) / len(pool))
                near = found[np.argsort(far[found], kind="stable")[:K]]
            recall.append(np.isin(every, near).mean())
            right.append(voted(y[near].astype(np.int64)) == true)
        assert row["accuracy"] == pytest.approx(np.mean(right))
        assert row["recall"] == pytest.approx(np.mean(recall))
        assert row["searched"] == pytest.approx(np.mean(searched or [1.0]))


def test_a_greater_epsilon_searches_less(rows):
    """And no search reads more rows than the 2M entries."""
    for metric in ("original", "learned"):
        few, many = (
            next(
                row["searched"]
                for row in rows
                if (row["metric"], row["bits"], row["epsilon"]) == (metric, 32, epsilon)
            )
            for epsilon in (1.5, 0.5)
        )
        assert few < many
        assert few <= 2 * np.ceil(2 * 750 ** (1 / 2.5)) / 750


def test_each_draw_has_queries_of_its_own(pool):
    """All of them are held out, and none is used to choose by."""
    draws, choosing = queries_of_draws(pool, 20, 50, 3, known=True)
    seen = [{row.tobytes() for row in part.X} for part in (*draws, choosing)]
    assert [len(part) for part in seen] == [20, 20, 20, 50]
    assert len(set.union(*seen)) == 110
    truth = {row.tobytes(): t for row, t in zip(pool.held_out.X, pool.held_out.truth, strict=True)}
    for part in (*draws, choosing):
        assert [truth[row.tobytes()] for row in part.X] == part.truth.tolist()
    with pytest.raises(InputError, match=r"170 held-out items of known class are needed as queries, 120"):
        queries_of_draws(pool, 40, 50, 3, known=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"bits": ()}, "a sweep needs at least one number of bits, number of labels and ε, got none"),
        ({"epsilons": (1.5, 0.0)}, "epsilon must be positive and finite, got 0"),
        ({"epsilons": (float("nan"),)}, "epsilon must be positive and finite, got nan"),
    ],
)
def test_impossible_sweeps_are_refused(words, message):
    """In one sentence."""
    with pytest.raises(InputError, match=f"^{message}$"):
        MetricSweeps(**words)
