"""The papers' methods against a plain reading of the papers, and their guarantee against theory.

The reading takes the random vectors that were drawn and nothing else: what a bit is, how codes are sorted,
where the hyperplane's code lies in them, and which rows are scored is written out here once more.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.hashing import BHHash, EHHash, HHash, HyperplaneHasher
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import STRATEGIES, ArrayPool, covering, make_strategy
from tests.scale import scaled

N, D, N_PLANES = 5000, 20, 50
PAPERS = {
    "H": ("h-hash", {}),
    "EH": ("eh-hash", {"query_samples": None}),
    "EH, sampled": ("eh-hash", {"query_samples": 100}),
    "BH": ("bh-hash", {}),
    "LBH": ("lbh-hash", {"n_samples": 200}),
}


@pytest.fixture(scope="module")
def pool():
    """Unit rows that lean to one side, as features do."""
    X = np.random.default_rng(0).standard_normal((N, D))
    X[:, 0] += 2
    return ArrayPool(X / np.linalg.norm(X, axis=1, keepdims=True))


@pytest.fixture(scope="module")
def planes():
    rng = np.random.default_rng(1)
    return [Hyperplane(rng.standard_normal(D), float(rng.normal(scale=0.3))) for _ in range(N_PLANES)]


def appended(strategy, pool):
    """The rows with a constant appended: their common norm, which is 1."""
    X = pool.rows(np.arange(len(pool))).astype(np.float64)
    constant = strategy.hasher_.augmentation_.constant
    assert constant == pytest.approx(1, abs=1e-6)
    return np.column_stack([X, np.full(len(X), constant)])


def bits_of(hasher, Z):
    """Bits of points as printed, before the sign: shape (len(Z), functions, bits of each)."""
    if isinstance(hasher, HHash):
        return (Z @ hasher.pairs_.astype(np.float64)).reshape(len(Z), -1, 2)
    if hasher.rank == "dense":
        return np.stack([np.einsum("ni,ij,nj->n", Z, U, Z) for U in matrices(hasher)], axis=1)[:, :, None]
    assert isinstance(hasher, BHHash)
    u, v = hasher.factors_.astype(np.float64).reshape(Z.shape[1], 2, -1).transpose(1, 0, 2)
    return ((Z @ u) * (Z @ v))[:, :, None]


def matrices(hasher):
    """The symmetric part of each U."""
    d = hasher.augmentation_.n_dimensions
    for column in hasher.dense_.T.astype(np.float64):
        U = np.zeros((d, d))
        U[np.triu_indices(d)] = column
        yield (U + U.T) / 2


def bits_of_plane(hasher, plane):
    """[sign(uᵀw), sign(−vᵀw)] by H-Hash; sign(−⟨U, wwᵀ⟩) by the others, of a sample of wwᵀ if asked."""
    w = np.append(plane.normal, plane.bias)
    w /= np.linalg.norm(w)
    if isinstance(hasher, HHash):
        return bits_of(hasher, w[None])[0] * (1, -1)
    if isinstance(hasher, EHHash) and hasher.query_samples is not None:
        rng = np.random.default_rng([hasher.random_state, int(plane.digest, 16)])
        p = w.astype(np.float32).astype(np.float64) ** 2
        p /= p.sum()
        W = np.zeros((len(w), len(w)))
        for i, j in rng.choice(len(w), size=(2, hasher.query_samples), p=p).T:
            W[i, j] += w[i] * w[j] / (hasher.query_samples * p[i] * p[j])
        return np.array([[-(U * W).sum()] for U in matrices(hasher)])
    return -bits_of(hasher, w[None])[0]


def in_buckets(tables, rows, own, wanted):
    """The first rows in the hyperplane's buckets, table after table."""
    found = []
    for functions in tables.functions_:
        same = (rows[:, functions] == own[functions]).all(axis=(1, 2))
        found += np.flatnonzero(same).tolist()
    return list(dict.fromkeys(found))[:wanted]


def sorted_rows(orders, rows):
    """Each order's functions, its rows sorted by their prefixes, and these prefixes, a byte for each bit."""
    for functions in orders.functions_:
        prefixes = rows[:, functions]
        order = np.lexsort(prefixes.reshape(len(rows), -1).T[::-1])
        yield functions, order, prefixes[order]


def beside(orders, own, wanted):
    """The rows around the hyperplane's place in each order, those that share the longest prefix first."""
    walks = []
    for functions, order, prefixes in orders:
        key = own[functions]
        place = bisect_left(prefixes, key.tobytes(), key=lambda prefix: prefix.tobytes())
        shared = np.cumprod((prefixes == key).all(axis=2), axis=1).sum(axis=1)
        for walk in (range(place)[::-1][:wanted], range(place, len(order))[:wanted]):
            walks.append([(int(shared[at]), int(order[at])) for at in walk])
    found: dict[int, None] = {}
    for level in range(len(orders[0][0]), -1, -1):
        while any(walk and walk[0][0] == level for walk in walks):
            for walk in walks:
                if walk and walk[0][0] == level:
                    found[walk.pop(0)[1]] = None
                    if len(found) == wanted:
                        return list(found)
    return list(found)


FEW = {"n_functions": 32, "n_candidates": 100}


@pytest.mark.parametrize("structure", ["orders", "tables"])
@pytest.mark.parametrize("name", PAPERS)
def test_selections_are_those_of_a_plain_reading(pool, planes, name, structure):
    """Row by row: the same candidates, and of these the nearest, up to ten."""
    n, n_planes = scaled(quick=(1500, 4), all=(N, N_PLANES))
    check_against_a_plain_reading(pool.prefix(n), planes[:n_planes], name, structure, FEW)


@pytest.mark.parametrize("structure", ["orders", "tables"])
@pytest.mark.parametrize("name", PAPERS)
def test_selections_with_the_defaults_are_those_of_a_plain_reading(pool, planes, name, structure):
    """As many functions and candidates as in the paper, if none are named; LBH-Hash learns 32 functions."""
    word, params = PAPERS[name]
    defaults = make_strategy(word, **params)
    assert (defaults.n_functions, defaults.n_candidates) == (32 if name == "LBH" else 300, 500)
    n, n_planes = scaled(quick=(1500, 1), all=(N, 5))
    check_against_a_plain_reading(pool.prefix(n), planes[:n_planes], name, structure, {})


def check_against_a_plain_reading(pool, planes, name, structure, how):
    """Compare the candidates and selections of a strategy with those that are written out above."""
    word, params = PAPERS[name]
    megabytes = 1 if structure == "orders" else 8
    strategy = make_strategy(word, structure=structure, megabytes=megabytes, **how, **params).fit(pool)
    wanted = strategy.n_candidates
    values = bits_of(strategy.hasher_, appended(strategy, pool))
    rows = strategy.structure_.codes_by_row().unpacked().reshape(values.shape) == 1
    assert ((rows == (values >= 0)) | (np.abs(values) < 1e-4)).all()
    X = pool.rows(np.arange(len(pool))).astype(np.float64)
    orders = list(sorted_rows(strategy.structure_, rows)) if structure == "orders" else []
    empty = 0
    for plane in planes:
        of_plane = bits_of_plane(strategy.hasher_, plane)
        own = strategy.hasher_.hash_hyperplane(plane).unpacked().reshape(of_plane.shape) == 1
        assert ((own == (of_plane >= 0)) | (np.abs(of_plane) < 1e-4)).all()
        exclude = np.empty(0, dtype=np.int64)
        for labeled in (0, 10):  # as if labeled items were not in the database
            more = wanted + labeled
            found = beside(orders, own, more) if orders else in_buckets(strategy.structure_, rows, own, more)
            there = np.array(found, dtype=np.int64)
            candidates = there[~np.isin(pool.ids[there], exclude)][:wanted]
            n = min(10, len(candidates))
            if n == 0:  # nothing is in the hyperplane's buckets: others are looked up
                empty += not labeled
                break
            chosen = strategy.select(plane, n, exclude=exclude)
            margins = np.abs(X[candidates] @ plane.normal + plane.bias)
            nearest = candidates[np.lexsort((candidates, margins))[:n]]
            assert chosen.scored == len(candidates)
            assert np.array_equal(chosen.ids, pool.ids[nearest])
            assert np.allclose(chosen.margins, np.sort(margins)[:n], atol=1e-6)
            exclude = np.sort(chosen.ids)
    assert empty <= (0 if structure == "orders" else len(planes) / 4)


@pytest.mark.parametrize("structure", ["orders", "tables"])
@pytest.mark.parametrize("name", PAPERS)
def test_the_code_of_the_hyperplane_is_what_is_looked_up(pool, planes, monkeypatch, name, structure):
    """Without it the papers' methods select nothing; the weighted forms never ask for it."""

    def fail(*_):
        raise RuntimeError("asked for the hyperplane's bits")

    word, params = PAPERS[name]
    pool = pool.prefix(1000)
    papers = make_strategy(word, structure=structure, n_functions=16, **params).fit(pool)
    weighted = make_strategy(f"{word}-weighted", n_functions=16).fit(pool)
    for kind in (HyperplaneHasher, HHash, EHHash, BHHash):
        monkeypatch.setattr(kind, "_hyperplane_bits", fail)
    with pytest.raises(RuntimeError, match="asked for"):
        papers.select(planes[0])
    assert len(weighted.select(planes[0]).ids) == 1


RADIUS, EPSILON = 0.25, 1.5


def planted(plane, angle, n, rng):
    """Some unit rows at the angle from the hyperplane, once a 1 is appended."""
    w = np.append(plane.normal, plane.bias)
    w /= np.linalg.norm(w)
    rows = []
    while len(rows) < n:
        # The last coordinate of a unit row with a 1 appended is 1/√2 of its length.
        last = 1 / np.sqrt(2)
        rest = rng.standard_normal(D)
        w_rest = w[:-1] / np.linalg.norm(w[:-1])
        across = rest - rest @ w_rest * w_rest
        across /= np.linalg.norm(across)
        along = (np.sin(angle) - last * w[-1]) / np.linalg.norm(w[:-1])
        if along**2 <= 0.5:
            rows.append(along * w_rest + np.sqrt(0.5 - along**2) * across)
    return np.array(rows) * np.sqrt(2)


WHOLE = {"h-hash": {}, "eh-hash": {"query_samples": None}, "bh-hash": {}}


@pytest.mark.parametrize("word", WHOLE)
def test_tables_find_planted_rows_as_often_as_theory_says(word):
    """Rows within the radius, on it and beyond it, each in 1 − (1 − pᵏ)ˡ of the trials.

    The rows of a pool are one another's trials only in the functions, so each trial draws its own.
    """
    rng = np.random.default_rng(2)
    plane = Hyperplane(rng.standard_normal(D), 0.1)
    n_far, trials = scaled(quick=(150, 60), all=(250, 200))
    far = planted(plane, (1 + EPSILON) * RADIUS, n_far, rng)
    angles = np.array([0.3, 1.0, 1.8]) * RADIUS
    found, scored, guarantee = np.zeros(3, dtype=int), [], None
    for seed in range(trials):
        near = [planted(plane, angle, 1, rng) for angle in angles]
        pool = ArrayPool(np.concatenate([*near, far]))
        strategy = make_strategy(
            word, structure="tables", radius=RADIUS, epsilon=EPSILON, random_state=seed, **WHOLE[word]
        ).fit(pool)
        guarantee = strategy.guarantee()
        own, _ = strategy.structure_.probed(
            strategy.hasher_.query(plane), n_far + 3, most_probes=guarantee.n_tables
        )
        found += np.isin([0, 1, 2], own)
        scored.append(np.count_nonzero(own >= 3))
    rule = strategy.rule(n_far + 3)
    assert guarantee == rule == strategy.planned(pool)
    assert strategy.structure_.n_independent == rule.n_tables
    assert strategy.hasher_.n_functions == rule.n_functions
    expected = rule.success_at(strategy.agreement(np.pi / 2 + angles))
    assert guarantee.success == pytest.approx(float(expected[1]))
    assert guarantee.success >= 1 - 1 / np.e
    for hits, p in zip(found, expected, strict=True):
        low, high = stats.binom.interval(1 - 1e-4, trials, p)
        assert low <= hits <= high
    assert np.mean(scored) <= 1.1 * guarantee.far_rows


def test_tables_that_share_functions_promise_what_those_without_do():
    """With fewer functions than independent tables take, the guarantee counts those that share none."""
    rng = np.random.default_rng(3)
    plane = Hyperplane(rng.standard_normal(D), 0.1)
    far = planted(plane, (1 + EPSILON) * RADIUS, 200, rng)
    found, trials = 0, scaled(quick=60, all=200)
    for seed in range(trials):
        pool = ArrayPool(np.concatenate([planted(plane, RADIUS, 1, rng), far]))
        strategy = make_strategy(
            "h-hash", structure="tables", radius=RADIUS, epsilon=EPSILON, random_state=seed, n_functions=300
        ).fit(pool)
        guarantee, tables = strategy.guarantee(), strategy.structure_
        own, _ = tables.probed(strategy.hasher_.query(plane), 201, most_probes=len(tables.functions_))
        found += 0 in own
    rule = strategy.rule(201)
    assert len(tables.functions_) == rule.n_tables
    assert guarantee.n_tables == tables.n_independent == 300 // rule.width < rule.n_tables
    assert len(np.unique(tables.functions_[: guarantee.n_tables])) == guarantee.n_tables * rule.width
    assert guarantee.success < rule.success
    interval = stats.binomtest(found, trials).proportion_ci(0.999)
    assert guarantee.success <= interval.high
    assert interval.low <= rule.success


@pytest.mark.parametrize("word", WHOLE)
def test_tables_codes_and_functions_fit_into_memory(pool, word):
    """Without a number of functions, and as many as that are drawn; a larger pool takes more of them."""
    how = {"structure": "tables", "radius": RADIUS, "epsilon": EPSILON, "megabytes": 3, **WHOLE[word]}
    strategy = make_strategy(word, **how).fit(pool)
    plan, tables = strategy.planned(pool), strategy.structure_
    assert strategy.guarantee() == plan
    assert plan.n_tables < strategy.rule(N).n_tables
    size = tables.codes_.packed.nbytes + tables.entries_.nbytes
    drawn = sum(strategy.hasher_.arrays()[name].nbytes for name in strategy.hasher_._drawn)
    assert 1.5e6 < size + drawn < 3.2e6
    assert strategy.params()["n_functions"] is None
    assert make_strategy(word).params()["n_functions"] == 300
    later = make_strategy(word, **how).fit(ArrayPool(pool.rows(np.arange(3000)))).extended(pool)
    assert later.guarantee() == plan
    assert np.array_equal(later.structure_.entries_, tables.entries_)
    plane = Hyperplane(np.ones(D), 0.0)
    restored = make_strategy(word, **how).sharing(strategy)
    assert restored.select(plane, n=5).ids.tolist() == strategy.select(plane, n=5).ids.tolist()


def test_the_rule_needs_nearly_as_many_tables_as_rows_at_the_angles_of_real_pools():
    """At 5° and ε = 1, ρ is near 1; what fits in memory guarantees less, and says so."""
    strategy = make_strategy("h-hash", structure="tables", radius=np.radians(5), epsilon=1.0, megabytes=1)
    rule = strategy.rule(1_000_000)
    assert 0.9 < rule.rho < 1
    assert rule.n_tables > 100_000
    few = rule.of_tables(rule.width, 16)
    assert few.success == pytest.approx(1 - (1 - rule.near**rule.width) ** 16)
    assert few.success < 1e-3 < rule.success


@pytest.mark.parametrize(
    ("word", "params", "sentence"),
    [
        ("h-hash", {"radius": 0.1}, "given together"),
        ("h-hash", {"radius": 0.1, "epsilon": 1.0}, "structure=tables"),
        ("h-hash", {"structure": "tables", "radius": 1.0, "epsilon": 1.0}, "π/2"),
        ("eh-hash", {"structure": "tables", "radius": 0.1, "epsilon": 1.0}, "query_samples=none"),
        ("h-hash", {"structure": "table"}, "structure must be one of orders, tables"),
        ("lbh-hash", {"radius": 0.1, "epsilon": 1.0}, "lbh-hash has the parameters"),
    ],
)
def test_what_cannot_be_guaranteed_is_refused(pool, word, params, sentence):
    with pytest.raises(InputError, match=sentence):
        make_strategy(word, **params).fit(pool)


def test_dense_forms_take_a_thousand_features():
    """More are refused in a sentence that names what takes them."""
    wide = ArrayPool(np.random.default_rng(0).standard_normal((3, 1001)))
    with pytest.raises(InputError, match=r"takes at most 1,000 features, .* got 1,001: eh-hash-weighted"):
        make_strategy("eh-hash", n_functions=4).fit(wide)


def test_the_cost_of_dense_forms_is_known_before_it_is_paid(monkeypatch):
    """As many multiplications and additions as U has entries, a function and row; others take seconds."""
    monkeypatch.setattr("closecall.core.selection.hashed.papers.operations_per_second", lambda: 1e10)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    pool = ArrayPool(np.random.default_rng(0).standard_normal((1000, 384)))
    cost = make_strategy("eh-hash").cost(pool)
    entries = 300 * 385 * 386 // 2
    assert cost.seconds == pytest.approx(2 * entries * 1000 / (0.85 * 2e10))
    assert 4 * entries + 200e6 < cost.n_bytes < 4 * entries + 201e6
    half = make_strategy("eh-hash", n_functions=150, megabytes=1).cost(pool)
    assert half.seconds == pytest.approx(cost.seconds / 2)
    assert half.n_bytes < 2 * entries + 2e6
    others = [make_strategy(name).cost(pool) for name in STRATEGIES if name != "eh-hash"]
    assert others == [None] * len(others)


def test_what_cannot_cover_a_pool_takes_no_part_unless_it_is_named():
    """A vocabulary is too large for dense forms and for learned functions, and for nothing else."""
    words = ArrayPool(csr_array(np.eye(5, 4001, dtype=np.float32)))
    assert set(STRATEGIES) - set(covering(STRATEGIES, words)) == {"eh-hash", "lbh-hash"}
    assert covering(["eh-hash:n_functions=9", "h-hash"], ArrayPool(np.eye(5))) == [
        "eh-hash:n_functions=9",
        "h-hash",
    ]
    with pytest.raises(InputError, match="at most 4,000 features, got 4,001: lbh-hash-weighted"):
        make_strategy("lbh-hash").fit(words)


def test_dense_forms_are_the_same_by_coordinates():
    """However many dimensions there are."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 90)).astype(np.float32)
    hasher = EHHash(rank="dense", n_functions=8, centred=False).fit(X, weighted=False)
    Z = hasher.augmentation_.points(X).astype(np.float64)
    forms = bits_of(hasher, Z)[:, :, 0]
    assert np.allclose(hasher._forms(hasher.augmentation_.points(X)), forms, atol=1e-3 * np.abs(forms).max())
