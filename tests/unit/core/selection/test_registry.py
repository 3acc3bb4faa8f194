from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

import closecall.core.selection.registry
from closecall.core.errors import InputError
from closecall.core.selection import (
    STRATEGIES,
    make_strategy,
    strategy_from,
    strategy_names,
    strategy_of_log,
)
from closecall.core.selection.contenders import CONTENDERS
from tests.contract.kit import LowestIdFirst, gaussian_pool, hyperplanes


@pytest.fixture
def plugins(monkeypatch):
    """Another package's strategies: a good one, one that is missing, one that is none."""
    group = closecall.core.selection.registry.ENTRY_POINTS
    entries = [
        EntryPoint("lowest-id", "tests.contract.kit:LowestIdFirst", group),
        EntryPoint("absent", "nowhere.to.be:Found", group),
        EntryPoint("a-function", "tests.contract.kit:make", group),
    ]

    def entry_points(*, group, name=None):
        return [entry for entry in entries if entry.group == group and name in (None, entry.name)]

    monkeypatch.setattr(closecall.core.selection.registry, "entry_points", entry_points)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_is_made_by_its_name(name):
    """Every strategy calls itself what it is called, and tells its parameters."""
    strategy = make_strategy(name, random_state=4)
    assert strategy.name == name
    assert make_strategy(name, **strategy.params()).params() == strategy.params()


def test_an_unknown_name_is_refused_with_the_names_there_are(plugins):
    """The message lists what is allowed, other packages' strategies included."""
    with pytest.raises(InputError, match=r"one of random, subsample, exhaustive, .*lowest-id, got 'psychic'"):
        make_strategy("psychic")
    assert strategy_names()[:3] == ["random", "subsample", "exhaustive"]


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_unknown_parameter_is_refused_with_those_there_are(name):
    """The message lists the strategy's parameters."""
    with pytest.raises(InputError, match=f"{name} has the parameters .*random_state; got colour"):
        make_strategy(name, colour="red")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"structure": "heap"}, "structure must be one of table, orders, scan, got 'heap'"),
        ({"n_functions": 0}, "n_functions must be at least 1, got 0"),
        ({"n_candidates": 0}, "n_candidates and megabytes must be at least 1, got 0 and 200"),
        ({"n_compared": -1}, "n_compared must be at least 0, got -1"),
        ({"scale": 0.0}, "scale must be positive and finite, got 0.0"),
        ({"scale": float("inf")}, "scale must be positive and finite, got inf"),
        ({"n_directions": 0}, "n_directions must be at least 1 or None, got 0"),
        (
            {"measure": "length"},
            "measure must be one of weights, disagreements, difference, got 'length'",
        ),
    ],
)
def test_a_parameter_out_of_range_is_refused(params, message):
    """It is named, with the value given and what is allowed."""
    with pytest.raises(InputError, match=message):
        make_strategy("h-hash-weighted", **params).fit(gaussian_pool(20))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"rank": 0}, "rank must be .* at least 1, got 0"),
        ({"rank": "thick"}, "rank must be .* at least 1, got 'thick'"),
        ({"rank": 2, "query_samples": 10}, "query_samples needs rank='dense', got rank=2 in 9 dimensions"),
        ({"rank": "dense", "query_samples": 0}, "query_samples must be at least 1 or None, got 0"),
        ({"rank": "dense", "n_functions": 10**7}, "450000000 numbers, but at most"),
    ],
)
def test_a_parameter_of_eh_hash_out_of_range_is_refused(params, message):
    """As above."""
    with pytest.raises(InputError, match=message):
        make_strategy("eh-hash-weighted", **params).fit(gaussian_pool(20))


LIMITS = (
    ({"budget": 0}, "budget must be at least 1, or none, got 0"),
    ({"share": 2.0}, "share must be above 0 and at most 1, or none, got 2"),
    ({"share": 0.5, "budget": 9_000}, "a budget or a share, not both"),
    ({"confidence": 1.5}, "confidence must be above 0 and at most 1, or none, got 1.5"),
    ({"confidence": 1.0, "budget": 9_000}, "a confidence of 1 needs all rows"),
)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        (name, *limit)
        for name, kind in {**STRATEGIES, **CONTENDERS}.items()
        for limit in LIMITS
        if {*limit[0], "confidence"} <= set(kind.param_names())
    ],
)
def test_an_invalid_limit_is_refused_before_anything_is_built(name, params, message):
    """By every strategy over the margin index, as soon as a session asks for it."""
    strategy = make_strategy(name, **params)
    with pytest.raises(InputError, match=message):
        strategy.check()


def test_another_package_adds_a_strategy_by_an_entry_point(plugins):
    """One class and one line of packaging."""
    strategy = make_strategy("lowest-id").fit(gaussian_pool(20))
    assert isinstance(strategy, LowestIdFirst)
    assert strategy.select(hyperplanes(1)[0], exclude=[5]).ids.tolist() == [8]


def test_a_strategy_of_another_package_that_cannot_be_used_is_refused(plugins):
    """The message names the strategy and where it should be."""
    with pytest.raises(InputError, match=r"strategy absent of nowhere\.to\.be:Found cannot be loaded"):
        make_strategy("absent")
    with pytest.raises(InputError, match=r"strategy a-function of .* is not a QueryStrategy"):
        make_strategy("a-function")


@pytest.mark.parametrize(
    ("word", "params"),
    [
        ("subsample", {"n_scored": 10_000, "random_state": 5}),
        ("subsample:n_scored=500", {"n_scored": 500, "random_state": 5}),
        ("subsample: n_scored = 2_000, random_state=7", {"n_scored": 2000, "random_state": 7}),
        ("h-hash-weighted:scale=2,centred=FALSE", {"scale": 2, "centred": False}),
        ("bh-hash-weighted:n_directions=none,scale=.5", {"n_directions": None, "scale": 0.5}),
        ("eh-hash-weighted:rank=dense", {"rank": "dense"}),
        ("eh-hash-weighted:rank=3,n_directions=16", {"rank": 3, "n_directions": 16}),
    ],
)
def test_a_word_names_a_strategy_and_its_parameters(word, params):
    """What is not named is as usual; a parameter that takes several kinds gets the kind written."""
    strategy = strategy_from(word, random_state=5)
    assert strategy.name == word.partition(":")[0]
    assert strategy.params() == {**make_strategy(strategy.name, random_state=5).params(), **params}
    for name, value in params.items():
        assert isinstance(strategy.params()[name], type(value))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("psychic:n=1", "strategy must be one of random, .*, got 'psychic'"),
        ("subsample:", "a strategy must be NAME or NAME:param=value,param=value, .*; got 'subsample:'"),
        ("subsample:500", "a strategy must be NAME or .*; got 'subsample:500'"),
        ("subsample:n_scored=", "a strategy must be NAME or .*; got 'subsample:n_scored='"),
        ("subsample:n_scored=1,n_scored=2", "each parameter once; got 'subsample:n_scored=1,n_scored=2'"),
        ("subsample:colour=3", "subsample has the parameters n_scored, .*; got colour"),
        ("subsample:n_scored=many", "n_scored of subsample must be a whole number, got 'many'"),
        ("subsample:n_scored=1.5", "n_scored of subsample must be a whole number, got '1.5'"),
        ("subsample:n_scored=true", "n_scored of subsample must be a whole number, got 'true'"),
        ("h-hash-weighted:centred=1", "centred of h-hash-weighted must be true or false, got '1'"),
        (
            "h-hash-weighted:structure=heap",
            "structure of h-hash-weighted must be table or orders or scan, got 'heap'",
        ),
        (
            "bh-hash-weighted:n_directions=few",
            "n_directions of bh-hash-weighted must be a whole number or none, got 'few'",
        ),
    ],
)
def test_a_word_that_names_none_is_refused(word, message):
    """One sentence with what was given and what is allowed."""
    with pytest.raises(InputError, match=message):
        strategy_from(word)


def test_a_word_takes_another_packages_parameters_as_they_come(plugins):
    """Where a class does not say of what kind its parameters are, the text decides."""
    assert strategy_from("lowest-id:random_state=3").params() == {"random_state": 3}


@pytest.mark.parametrize("name", [name for name in STRATEGIES if "hash" in name])
def test_logs_of_earlier_versions_keep_their_meaning(name):
    """They don't name what came later; see `FORMER_DEFAULTS`."""
    logged = make_strategy(name).params()
    assert strategy_of_log(name, logged).params() == logged
    del logged["refills"]
    assert strategy_of_log(name, logged).params() == logged | {"refills": False}
    assert make_strategy(name, **logged).params() == logged | {"refills": True}
    assert strategy_of_log("margin-index", {}).params() == make_strategy("margin-index").params()
