"""The settings of a search by hashing: what the log says of them, what is refused, and what they cost."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from closecall.app.indexes.codes import built, coded, n_compared, parameters
from closecall.app.indexes.costs import cost_of, guarantee_of
from closecall.app.indexes.recipe import Recipe
from closecall.app.indexes.settings import EXACT, OFFERED, STRUCTURES
from closecall.app.indexes.similar import METHODS
from closecall.core.errors import InputError
from closecall.core.hashing import FAMILIES, ShiftInvariantHash
from closecall.core.hashing.forms import FORMS, forms_named
from closecall.core.hashing.pool import fit_rows
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.search import SIMILARITY_STRUCTURES
from closecall.core.search.tables import Guarantee
from closecall.core.similar import HashedSimilarity
from closecall.core.sources import source_from
from closecall.storage import Labels
from tests.fakes import FakeSource
from tests.families import learning_little
from tests.projects import digits_pool
from tests.scale import thorough

N = 500
MEMORY = 2_000
"""Bytes per row: 1 MB for all rows."""

TODAY = {
    "share": 0.02,
    "least_compared": 2000,
    "candidates": 4000,
    "landmarks": 300,
    "seed": 0,
}
"""What logs have had since there are codes."""

OTHERS = [
    Recipe("scan", "klsh", form="low rank, transformed", rank=32, scale=9.0, kernel="intersection"),
    Recipe("scan", "klsh", kernel="rbf:gamma=2", landmarks=100, functions=48),
    Recipe("table", "spectral", form="trimmed", share=0.5, candidates=10_000),
    Recipe("tables", radius=20.0, epsilon=0.5, memory=512, functions=1_024),
    Recipe("tables", form="from the origin", radius=20.0),
    Recipe("tables", "shift-invariant", radius=30.0, epsilon=2.0),
    Recipe("tables", "min-hash", radius=60.0, epsilon=0.5, functions=128),
    Recipe("orders", "kpca-lsh", form="low rank", epsilon=1.5),
    Recipe("ball", "rbm", form="by class", functions=24, share=0.3),
    Recipe("orders", "min-hash", form="weighted", bits=8, memory=64),
    Recipe("scan", "ksh", kernel="cosine", landmarks=64, functions=16),
]


def labels(pool: Pool | None = None, n: int = 60) -> Labels:
    """Of the first items; every third is a yes."""
    items = np.arange(n, dtype=np.int64) if pool is None else pool.ids[:n]
    return Labels(items, np.arange(n) % 3 == 0, n)


def told(recipe: Recipe) -> dict:
    """What the log has of a search, as it is read from there."""
    taught = labels() if recipe.learns else None
    return json.loads(json.dumps(parameters(recipe, "weights", taught)))


@pytest.mark.parametrize("structure", ["scan", "tables", "orders", "table"])
@pytest.mark.parametrize("family", OFFERED)
def test_logs_of_defaults_are_as_they_were(structure, family):
    """No key is added, and what was written before any setting could be changed is the default."""
    params = told(Recipe(structure, family))
    beside = {"ranked", "most_taught", "through", "labels"}
    share = 0.1 if structure == "table" else 0.02
    functions = 64 if family.startswith("ksh") else 256
    expected = {"family": family, "functions": functions, **TODAY, "share": share}
    assert {name: value for name, value in params.items() if name not in beside} == expected
    assert Recipe.of_log(structure, expected) == Recipe(structure, family)


@pytest.mark.parametrize("recipe", OTHERS, ids=lambda one: f"{one.structure}-{one.family}")
def test_the_log_has_every_setting(recipe):
    """From which the same recipe is made, and only what differs is added."""
    params = told(recipe)
    assert Recipe.of_log(recipe.structure, params) == recipe
    added = params.keys() - told(Recipe(recipe.structure, recipe.family, form=recipe.form)).keys()
    assert {name for name in added if getattr(recipe, name) is None} == set()


def test_a_default_that_is_spelled_out_is_the_default():
    """Equal searches are kept once: the defaults depend on family and structure."""
    assert Recipe("scan", functions=256, candidates=4000, share=0.02, form="from the mean") == Recipe("scan")
    assert Recipe("table", share=0.1) == Recipe("table") != Recipe("table", share=0.02)
    assert Recipe("scan", "ksh", functions=64) == Recipe("scan", "ksh")
    assert Recipe("ball", functions=32).codes == Recipe("ball").codes == Recipe("scan", functions=32)
    assert Recipe("tables", radius=9.0, epsilon=1.0) == Recipe("tables", radius=9.0)
    assert hash(Recipe("scan", functions=256)) == hash(Recipe("scan"))


def test_another_structure_or_family_begins_with_its_defaults():
    """But codes stay those of the family, and the number of candidates what it was."""
    one = Recipe("tables", "klsh", form="low rank", functions=64, memory=64, candidates=9_000)
    assert one.by("orders") == Recipe("orders", "klsh", form="low rank", functions=64, candidates=9_000)
    assert one.by("ball") == Recipe("ball", "klsh", form="low rank", candidates=9_000)
    assert one.by(EXACT).by("tables") == replace(one, memory=None)
    assert one.of("spectral") == Recipe("tables", "spectral", memory=64, candidates=9_000)
    assert one.under_metric == Recipe("tables", functions=64, memory=64, candidates=9_000)
    assert one.having(form="original").rank is None
    assert Recipe("tables", radius=20.0, epsilon=2.0).having(radius=None) == Recipe("tables")
    assert Recipe("tables", radius=20.0).of("shift-invariant").radius is None  # it may mean something else
    angle, overlap = (Recipe("tables", name, radius=30.0) for name in ("shift-invariant", "min-hash"))
    assert (angle.value("epsilon"), overlap.value("epsilon")) == (1.0, 0.2)
    assert angle.under_metric == Recipe("tables", radius=30.0)
    assert overlap.under_metric == Recipe("tables")
    assert Recipe("orders", "min-hash", epsilon=2.0).under_metric == Recipe("orders", epsilon=2.0)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"functions": 0}, "functions must be a whole number from 1 to 4,096, got 0"),
        ({"functions": 64.5}, "functions must be a whole number from 1 to 4,096, got 64.5"),
        ({"functions": True}, "functions must be a whole number"),
        ({"functions": "all"}, "functions must be a whole number"),
        ({"candidates": 100}, "candidates must be a whole number from 2,400 to 1,000,000, got 100"),
        ({"share": 0.5}, "share has no effect with lsh codes and method scan"),
        ({"structure": "table", "share": 1.5}, "share must be from 0.0001 to 1, got 1.5"),
        ({"structure": "table", "share": float("nan")}, "share must be from 0.0001 to 1, got nan"),
        ({"kernel": "chi2"}, "kernel has no effect with lsh codes"),
        ({"family": "klsh", "kernel": "md5"}, "kernel must be one of cosine, chi2, intersection"),
        ({"family": "klsh", "kernel": "chi2:scale=5"}, "kernel must be one without a scale"),
        ({"family": "klsh", "landmarks": 600}, "landmarks must be at most 256, the number of rows"),
        ({"family": "klsh", "landmarks": 50}, "landmarks must be a whole number from 51 to 5,000, got 50"),
        (
            {"family": "klsh", "form": "low rank", "rank": 300},
            "rank must be less than the number of landmarks",
        ),
        ({"family": "klsh", "rank": 30}, "rank has no effect"),
        ({"family": "klsh", "form": "long"}, "form of klsh must be one of from the mean, .*, got 'long'"),
        ({"family": "shift-invariant", "form": "long"}, "form of shift-invariant must be one of left out"),
        ({"family": "min-hash", "bits": 3}, "bits must be one of 1, 2, 4, 8, 16, got 3"),
        (
            {"structure": "ball", "functions": 33},
            "a Hamming ball needs codes of at most 32 functions of 1 bit",
        ),
        ({"structure": "ball", "family": "min-hash", "bits": 4}, "at most 32 functions of 1 bit, got 32"),
        ({"structure": "tables", "radius": 100.0}, r"\(1 \+ ε\) times the radius must be less than 180°"),
        ({"structure": "tables", "epsilon": 1.5}, "epsilon has no effect"),
        ({"structure": "tables", "family": "spectral", "radius": 10.0}, "radius has no effect with spectral"),
        (
            {"structure": "tables", "family": "min-hash", "radius": 100.0},
            "radius must be from 0.1 to 99.9, got 100",
        ),
        (
            {"structure": "tables", "family": "min-hash", "radius": 80.0, "epsilon": 0.5},
            "with a least overlap of 20 %, ε must be less than 0.25, got 0.5",
        ),
        ({"structure": "tables", "family": "klsh", "radius": 10.0}, "radius has no effect with klsh"),
        ({"structure": "orders", "family": "min-hash", "radius": 10.0}, "radius has no effect"),
        ({"structure": "tables", "memory": 4}, "memory must be a whole number from 12 to 16,384, got 4"),
    ],
)
def test_bad_settings_are_a_sentence(settings, sentence):
    """Which names the setting, its value and what is allowed."""
    recipe = Recipe(**{"structure": "scan", **settings})
    with pytest.raises(InputError, match=sentence):
        recipe.check(N)


@pytest.mark.parametrize(
    ("structure", "params", "sentence"),
    [
        ("tree", {}, "method must be one of"),
        ("scan", {"family": "md5"}, "codes must be one of"),
        ("scan", {"family": ["lsh"]}, "codes must be one of"),
        ("scan", {"family": "klsh", "form": ["low rank"]}, "form must be a word"),
        ("scan", {"family": "klsh", "kernel": {}}, "kernel must be a word"),
        ("scan", {"family": "lsh", "landmarks": 100}, "landmarks has no effect"),
    ],
)
def test_a_damaged_log_is_a_sentence(structure, params, sentence):
    """No value of another type gets further."""
    with pytest.raises(InputError, match=sentence):
        Recipe.of_log(structure, params)


def test_folders_are_readable_and_differ():
    """Those of the defaults are named as before."""
    assert [Recipe("tables", family).word for family in OFFERED] == list(OFFERED)
    assert Recipe("tables", candidates=9_000, share=0.5).word == "lsh"
    word = Recipe("tables", "klsh", form="low rank, transformed").word
    assert word.startswith("klsh-low-rank-transformed-256-")
    assert len({recipe.word for recipe in OTHERS}) == len(OTHERS)
    assert Recipe("tables", share=0.5).structure_word == "tables"
    assert Recipe("tables", memory=64).structure_word.startswith("tables-")


def test_every_structure_has_a_name():
    """And every form belongs to a family."""
    assert set(STRUCTURES) == {EXACT, *SIMILARITY_STRUCTURES} == set(METHODS)
    assert set(FORMS) <= set(OFFERED)
    for family in OFFERED:
        usual = next(iter(forms_named(family).values()))
        assert usual.params == {}
        for form in forms_named(family).values():
            FAMILIES[family](**form.params, n_functions=4)


@pytest.fixture(scope="module")
def pools(tmp_path_factory) -> dict[bool, Pool]:
    """Dense and sparse rows."""
    sparse = build(source_from(f"sets:digits:{N}"), tmp_path_factory.mktemp("recipes") / "sparse")
    return {False: Pool.open(digits_pool()), True: sparse}


def cases():
    """Every form of every family by some structure; by all of them in a long run."""
    structures = [name for name in STRUCTURES if name != EXACT]
    place = 0
    for family in OFFERED:
        for form in forms_named(family):
            for i, structure in enumerate(structures):
                case = structure, family, form
                yield case if i == place % len(structures) else thorough(*case)
            place += 1


@pytest.mark.parametrize(("structure", "family", "form"), list(cases()))
def test_what_is_found_is_what_core_finds(pools, structure, family, form):
    """With the same settings; where all of so few rows are compared, they are ranked as by brute force."""
    pool = pools[FAMILIES[family].takes == "sparse"]
    functions = 32 if family == "boosted" else None  # each stump takes a pass over all pairs
    recipe = Recipe(structure, family, form=form or None, functions=functions)
    if recipe.applies("memory"):
        recipe = replace(recipe, memory=MEMORY)
    n = len(pool)
    with learning_little():
        hasher, codes = coded(pool, None, lambda done, of: None, recipe, labels(pool))  # noqa: ARG005
        search = built(recipe, pool, hasher, codes)
        made = FAMILIES[family](**recipe.params(n), n_functions=recipe.value("functions"))
        for name, value in forms_named(family)[form].params.items():
            assert getattr(hasher, name) == value
        if not recipe.learns:
            made.fit(pool.rows(fit_rows(n)))
        own = hasher if recipe.learns else made
    in_core = HashedSimilarity.built(
        pool,
        own,
        structure=structure,
        megabytes=MEMORY * n // 10**6,
        n_compared=n_compared(n, recipe.value("share")),
        n_candidates=4_000,
    )
    query = pool.rows(np.array([7]))
    found, expected = (one.neighbours(query, 40, exclude=pool.ids[7:8]) for one in (search, in_core))
    brute = own.between(query, pool.rows(np.arange(n)))[0]
    brute = brute if own.estimates in ("angle", "distance") else -brute
    if family == "lsh" and own.centred:  # the page and core rank by the angle from the origin
        brute = -np.asarray(pool.rows(np.arange(n)) @ query.T)[:, 0]
    shown, in_theirs = (brute[pool.row_of(one.ids)] for one in (found, expected))
    assert np.allclose(shown, in_theirs, atol=1e-4)
    assert (found.compared == n) or structure == "tables"  # which end when buckets are empty for long
    if found.compared == n:
        assert np.allclose(shown, np.sort(np.delete(brute, 7))[:40], atol=1e-4)
    assert found.measure == ("angle" if own.by_angle else own.estimates)


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe("scan"),
        Recipe("table", functions=70),
        Recipe("tables"),
        Recipe("tables", memory=600),
        Recipe("tables", radius=10.0, epsilon=2.0, memory=600, functions=500),
        Recipe("orders"),
        Recipe("orders", epsilon=2.0, memory=4_000),
        Recipe("ball"),
    ],
    ids=lambda one: f"{one.structure}-{one.memory}",
)
def test_the_memory_is_what_is_said(tmp_path, recipe):
    """Codes to the byte, structures up to their directories; the tables guarantee what was said."""
    pool = build(FakeSource(3_000, 8, seed=0), tmp_path / "pool")
    search = built(recipe, pool, *coded(pool, None, lambda done, of: None, recipe))  # noqa: ARG005
    said = cost_of(recipe, len(pool))
    codes = search.structure.codes_by_row().packed.nbytes
    assert said.codes == codes
    other = recipe.structure in ("table", "ball")  # has its own copy beside the codes by row
    really = search.structure.n_bytes - (0 if other else codes)
    assert said.structure == pytest.approx(really, rel=0.2, abs=5_000)
    if recipe.radius is not None:
        tables = search.structure
        rule = tables.guarantee(Guarantee.for_angles(len(pool), np.radians(10), 2.0))
        sentence = guarantee_of(recipe, len(pool))
        assert f"{len(tables.functions_)} tables of {rule.width} functions" in sentence
        assert f"at least {100 * rule.success:.0f} %" in sentence
    else:
        assert guarantee_of(recipe, len(pool)) is None


RADII = [
    Recipe("tables", radius=20.0, functions=300, memory=240),
    Recipe("tables", form="from the origin", radius=20.0, epsilon=3.0, functions=30),
    Recipe("tables", "shift-invariant", radius=40.0, epsilon=2.0, memory=600, functions=1_000),
    Recipe("tables", "min-hash", radius=40.0, memory=400),
    Recipe("tables", "min-hash", form="weighted", bits=1, radius=30.0, functions=12),
    Recipe("tables", "min-hash", bits=16, radius=30.0, functions=3),
]


@pytest.mark.parametrize("recipe", RADII, ids=lambda one: f"{one.family}-{one.radius:g}-{one.bits}")
def test_what_is_guaranteed_is_what_the_tables_guarantee(pools, recipe):
    """By the tables as they are built: keys and memory, whatever the family's functions and bits."""
    pool = pools[FAMILIES[recipe.family].takes == "sparse"]
    recipe.check(len(pool))
    hasher, codes = coded(pool, None, lambda done, of: None, recipe)  # noqa: ARG005
    tables = built(recipe, pool, hasher, codes).structure
    r = np.radians(recipe.radius) if recipe.family != "min-hash" else recipe.radius / 100
    far = (1 + recipe.value("epsilon")) * r
    probabilities = [hasher.agreement_within(float(one)) for one in (r, far)]
    own = tables.guarantee(Guarantee.by_rule(len(pool), *probabilities))
    sentence = guarantee_of(recipe, len(pool), hasher)
    assert sentence.startswith(f"{len(tables.functions_)} tables of {own.width} functions: an item ")
    assert f"with a probability of at least {100 * own.success:.0f} %." in sentence
    within = f"with an overlap of at least {100 - recipe.radius:g} %"
    assert (within if recipe.family == "min-hash" else f"within {recipe.radius:g}°") in sentence
    said = cost_of(recipe, len(pool), hasher)
    assert said.structure == pytest.approx(tables.n_bytes - codes.packed.nbytes, rel=0.2, abs=5_000)


def test_a_guarantee_that_is_estimated_says_so():
    """While γ is one of few rows; a radius at which codes say nothing is a sentence."""
    recipe = Recipe("tables", "shift-invariant", radius=40.0)
    assert "of at least about " in guarantee_of(recipe, N, ShiftInvariantHash(gamma=2.0))
    with pytest.raises(InputError, match="at a radius of 80°, shift-invariant codes can't tell nearer"):
        guarantee_of(replace(recipe, radius=80.0), N, ShiftInvariantHash(gamma=100.0))
    sentence = guarantee_of(Recipe("tables", radius=20.0), N, under_metric=True)
    assert "an item within 20° under the metric, as seen from the mean, shares a bucket" in sentence


def test_the_work_is_said_before_it_is_done():
    """By the settings, and without a time unless there is one."""
    assert cost_of(Recipe("scan"), 10**6).sentence() == (
        "Memory: codes 32 MB. To compute: 256 inner products per item."
    )
    one = cost_of(Recipe("tables", "klsh", landmarks=500), 10**6)
    assert one.sentence() == ("Memory: codes 32 MB, tables 120 MB. To compute: 500 kernel values per item.")
    assert one.sentence(is_built=True, seconds=75.0) == (
        "Memory: codes 32 MB, tables 120 MB. The codes took 1 min 15 s."
    )
    assert one.sentence(is_built=True) == "Memory: codes 32 MB, tables 120 MB."
    for family in OFFERED:
        assert cost_of(Recipe("scan", family), 5_000).work
