from __future__ import annotations

import sys

import pytest
from numba.core.dispatcher import Dispatcher

from closecall.core.hashing import MetricLSH, RandomHyperplaneLSH
from closecall.core.hashing.pool import hash_rows
from closecall.core.learning.round import Labels, accuracy, is_positive
from closecall.core.metric import ITML, Constraints
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.search import SIMILARITY_STRUCTURES, built_for_points
from closecall.core.selection import STRATEGIES, make_strategy
from closecall.core.selection.hashed import HashedSearch
from closecall.core.similar import ByAngle, ExactSearch, HashedSimilarity, nearness_of
from closecall.core.similar.files import load_codes, load_structure, save_codes, save_structure
from closecall.core.sources import source_from
from closecall.core.warmup import warm_up
from tests.fakes import FakeTexts
from tests.scale import scaled
from tests.yardsticks import play_round


def compiled() -> dict[str, int]:
    """Every kernel of the program, and for how many combinations of types it is compiled."""
    modules = [module for name, module in sys.modules.items() if name.startswith("closecall.")]
    return {
        f"{kernel.__module__}.{kernel.__name__}": len(kernel.signatures)
        for module in modules
        for kernel in vars(module).values()
        if isinstance(kernel, Dispatcher)
    }


@pytest.fixture(scope="module", autouse=True)
def before() -> dict[str, int]:
    """What the warm-up has compiled, before anything else is done."""
    warm_up()
    return compiled()


@pytest.fixture(scope="module")
def images(before, tmp_path_factory) -> Pool:  # built after the warm-up
    """A pool that the tests share; building it is one of the things that compile no kernel."""
    return build(source_from(f"digits:{N_IMAGES}"), tmp_path_factory.mktemp("images") / "pool")


@pytest.fixture(scope="module")
def texts(before, tmp_path_factory) -> Pool:  # built after the warm-up
    """As the images."""
    return build(FakeTexts(700, held_out=range(5)), tmp_path_factory.mktemp("texts") / "pool")


N_IMAGES = scaled(quick=700, all=900)

FUNCTIONS = scaled(quick={"n_functions": 16}, all={})
"""Of strategies by hashing: fewer than usual, or as many."""

LEARNED = FUNCTIONS | scaled(quick={"n_samples": 100}, all={})
"""Of functions that are learned: from fewer rows, too."""

OF_ALL_FEATURES = ("h-hash-weighted", "eh-hash-weighted", "bh-hash-weighted")
"""Sparse rows have kernels of their own where no directions are taken."""


@pytest.mark.parametrize("name", STRATEGIES)
def test_nothing_is_left_to_compile(name, before, images):
    """After the warm-up, building a pool, learning and selecting compile no kernel any more."""
    pool = images
    assert before["closecall.core.linear.kernels.sides"]
    assert before["closecall.core.linear.scoring._move_bits"]
    kind = STRATEGIES[name]
    structures = kind.structures if issubclass(kind, HashedSearch) else [None]
    labels = Labels.of(pool, pool.ids[:200], is_positive(pool.truth(pool.ids[:200]), 3))
    for structure in structures:
        params = {"structure": structure} | FUNCTIONS if structure else {}
        strategy = make_strategy(name, **params).fit(pool.prefix(N_IMAGES - 200))
        for index in (strategy, strategy.extended(pool)):
            play_round(pool, labels, index)
            index.select(play_round(pool, labels, index).trained.hyperplane, 12, exclude=range(50))
    assert compiled() == before


@pytest.mark.parametrize("name", ["exhaustive", "margin-index", "mixture", "auto", "likely-positive"])
def test_nothing_is_left_to_compile_for_bytes(name, before, tmp_path):
    """As for images, from a pool with several segments, of which a snapshot may end within one."""
    pool = build(source_from(f"edges:digits:{N_IMAGES}"), tmp_path / "pool", dtype="byte")
    labels = Labels.of(pool, pool.ids[:200], is_positive(pool.truth(pool.ids[:200]), 3))
    for end in (N_IMAGES - 200, N_IMAGES - 350):
        strategy = make_strategy(name).fit(pool.prefix(end))
        for index in (strategy, strategy.extended(pool)):
            hyperplane = play_round(pool, labels, index).trained.hyperplane
            index.select(hyperplane, 12, exclude=range(50))
            list(pool.score_blocks([hyperplane] * 3))
    assert compiled() == before


@pytest.mark.parametrize("name", sorted(set(STRATEGIES) - {"eh-hash"}))  # it takes 1,000 features
def test_nothing_is_left_to_compile_for_texts(name, before, texts):
    """As for images."""
    pool = texts
    labels = Labels.of(pool, pool.ids[:80], is_positive(pool.truth(pool.ids[:80]), 1))
    functions = FUNCTIONS if issubclass(STRATEGIES[name], HashedSearch) else {}
    functions = LEARNED if name.startswith("lbh-hash") else functions
    directions = {"n_directions": None} if name in OF_ALL_FEATURES else {}
    for strategy in (make_strategy(name, **functions), make_strategy(name, **functions, **directions)):
        index = strategy.fit(pool.prefix(400)).extended(pool)
        hyperplane = play_round(pool, labels, index).trained.hyperplane
        index.select(hyperplane, 12, exclude=range(50), diversity=0.3)
        accuracy(hyperplane, pool.held_out.X, pool.held_out.truth, 1)
    assert compiled() == before


@pytest.mark.parametrize("kind", ["images", "texts"])
@pytest.mark.parametrize("structure", SIMILARITY_STRUCTURES)
def test_nothing_is_left_to_compile_for_finding_similar_items(structure, kind, before, tmp_path, request):
    """Under the original metric and a learned one."""
    pool = request.getfixturevalue(kind)
    X, y = pool.rows(range(80)), pool.truth(pool.ids[:80])
    metric = ITML().fit(X, Constraints.from_labels(X, y)).metric_
    for family in (RandomHyperplaneLSH(n_functions=20), MetricLSH(metric=metric, n_functions=20)):
        codes = hash_rows(family.fit(X), pool.blocks(), len(pool), lambda _: None)
        save_codes(tmp_path / "codes", pool, family, codes, {}, {})
        saved = load_codes(tmp_path / "codes", pool, lambda _, one=family: type(one)(**one.params()))
        how = {"n_compared": 90, "n_bytes": 10**6, "seed": 0}
        built = built_for_points(structure, codes, **how)
        save_structure(tmp_path / structure, built, codes, how)
        loaded = load_structure(tmp_path / structure, SIMILARITY_STRUCTURES[structure], saved.codes, how)
        for nearness in (nearness_of(pool, family), ByAngle(pool)):
            for hasher, made in ((family, built), (saved.hasher, loaded)):
                HashedSimilarity(hasher, made, nearness).neighbours(X[[3]], 4, exclude=range(9))
            ExactSearch(nearness).neighbours(X[[3]], 4)
    assert compiled() == before
