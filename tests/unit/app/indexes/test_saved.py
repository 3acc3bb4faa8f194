"""Indexes of the page Find similar outlast the process: see `app.indexes.saved`."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import closecall.app.indexes.saved
import closecall.core.hashing.pool
from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.indexes import codes as hashed
from closecall.app.indexes import strategies as indexes
from closecall.app.indexes.codes import coded
from closecall.app.indexes.metric import learn, parameters
from closecall.app.indexes.recipe import Recipe
from closecall.app.indexes.saved import KEPT_CODES, Kept, Wanted
from closecall.app.sessions.similar.query import Like
from closecall.core.hashing.similarity import SimilarityHasher
from closecall.core.metric.validation import Validated
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.storage import Labels
from tests.fakes import FakeSource
from tests.families import learning_little
from tests.projects import answer, new_project, open_workspace, truth_word
from tests.scale import scaled, thorough
from tests.similar import settled
from tests.waiting import until

STRUCTURES = ("scan", "tables", "orders")
KILLS = scaled(quick=1, all=6, long=50)


def each_once(kinds, names):
    """All pairs; of these a quick run tries some in which every kind and every name is."""
    return [
        (kind, name) if place % len(kinds) == number else thorough(kind, name)
        for number, kind in enumerate(kinds)
        for place, name in enumerate(names)
    ]


@pytest.fixture(autouse=True)
def everything_is_saved(monkeypatch):
    """However quickly it was built."""
    monkeypatch.setattr(indexes, "CHEAP_SECONDS", 0)


@pytest.fixture(scope="module", autouse=True)
def little():
    with learning_little():
        yield


@pytest.fixture(scope="module")
def pool(tmp_path_factory) -> Pool:
    return pool_in(tmp_path_factory.mktemp("kept"))


def pool_in(folder, n=3000, seed=0) -> Pool:
    return build(FakeSource(n, 8, seed=seed), folder / "pool")


class Work:
    """What is done anew: how many rows are hashed, how many families fitted, which structures built."""

    def __init__(self, monkeypatch):
        self.rows, self.fits, self.built = [], [], []
        hash_rows, fit = closecall.core.hashing.pool.hash_rows, SimilarityHasher.fit

        def hashing(hasher, blocks, n_rows, advanced):
            self.rows.append(n_rows)
            return hash_rows(hasher, blocks, n_rows, advanced)

        def fitting(hasher, X, y=None):
            self.fits.append(hasher.name)
            return fit(hasher, X, y)

        monkeypatch.setattr(closecall.core.hashing.pool, "hash_rows", hashing)
        monkeypatch.setattr(SimilarityHasher, "fit", fitting)
        build = closecall.app.indexes.saved.built_for_points

        def building(name, codes, **how):
            self.built.append(name)
            return build(name, codes, **how)

        monkeypatch.setattr(closecall.app.indexes.saved, "built_for_points", building)

    def taken(self):
        """Since the last time it was asked."""
        taken = self.rows, self.fits, self.built
        self.rows, self.fits, self.built = [], [], []
        return taken


NOTHING = ([], [], [])


@pytest.fixture
def work(monkeypatch) -> Work:
    return Work(monkeypatch)


def answers_of(n, through, pool_size=3000):
    """So many labels, of which every third is yes."""
    items = np.arange(n, dtype=np.int64) * (pool_size // n - 1)
    return Labels(items, np.arange(n) % 3 == 0, through)


def of_log(*labels):
    """A log in which these are the labels of concept 1, each as of its place."""
    return lambda concept, through: {(1, one.through): one for one in labels}[concept, through]


def no_log(concept, through):
    raise AssertionError("nothing was learned from answers")


def unheard(done, of):
    pass


def request(family, *args, **how):
    """For codes of a family in its defaults, searched by tables."""
    return Wanted(Recipe("tables", family), *args, **how)


def made(folder, wanted, name="tables", log=no_log, recipe=None):
    """What a process finds or makes, the first time that it is asked; by a whole recipe, if it is given."""
    one = Kept(folder, log)
    codes = one.coded(wanted, None, unheard)
    return one.search(by(name, wanted) if recipe is None else wanted, codes)


def by(name, wanted):
    """The same with another structure."""
    return replace(wanted, recipe=wanted.recipe.by(name))


def params_of(made):
    """What the log would say of it."""
    _, params = made
    return params


def found(made):
    """What it finds for a few items."""
    search, _ = made
    pool = search.pool
    answers = [
        search.neighbours(pool.rows(np.array([row])), 40, exclude=pool.ids[row : row + 1])
        for row in (3, 500, 1999)
    ]
    return [(one.ids.tolist(), one.values.tolist(), one.compared, one.items) for one in answers]


def is_mapped(made):
    search, _ = made
    return isinstance(search.structure.codes_.packed, np.memmap)


@pytest.mark.parametrize(("kind", "name"), each_once(("plain", "taught", "metric"), STRUCTURES))
def test_what_is_loaded_finds_what_was_built(pool, tmp_path, monkeypatch, work, kind, name):
    """To the last digit, and nothing is fitted, hashed or sorted for it; as if nothing had been saved."""
    monkeypatch.setattr(hashed, "LEAST_COMPARED", 100)
    labels = answers_of(24, 7)
    log = of_log(labels) if kind == "taught" else no_log
    metric = learn(pool, labels, parameters()) if kind == "metric" else None
    wanted = request("ksh", pool, 1, labels=labels) if kind == "taught" else request("lsh", pool, 1, metric)
    codes = coded(pool, metric, unheard, wanted.recipe, wanted.labels)
    unsaved = hashed.built(wanted.recipe.by(name), pool, *codes, metric=metric)
    work.taken()
    built = made(tmp_path, wanted, name, log)
    assert work.taken() == ([3000], [codes[0].name], [name])
    loaded = made(tmp_path, wanted, name, log)
    assert work.taken() == NOTHING
    assert found(built) == found(loaded) == found((unsaved, {}))
    assert params_of(built) == params_of(loaded)
    assert is_mapped(built)
    assert is_mapped(loaded)
    word = {"plain": "lsh", "taught": "ksh-1", "metric": "metric-1"}[kind]
    assert [path.name for path in tmp_path.iterdir()] == [word]


def test_a_metric_that_was_learned_again_is_the_same(pool, tmp_path, work):
    """After a restart it is learned from the same answers."""
    metric, again = (learn(pool, answers_of(24, 7), parameters()) for _ in range(2))
    made(tmp_path, request("lsh", pool, 1, metric))
    work.taken()
    made(tmp_path, request("lsh", pool, 1, again))
    assert work.taken() == NOTHING


def test_another_metric_has_other_codes(pool, tmp_path, work, caplog):
    """That of more answers replaces it, without a warning."""
    for n in (24, 25):
        made(tmp_path, request("lsh", pool, 1, learn(pool, answers_of(n, n), parameters())))
        assert work.taken() == ([3000], ["metric-lsh"], ["tables"])
    assert caplog.text == ""
    assert [path.name for path in tmp_path.iterdir()] == ["metric-1"]


@pytest.mark.parametrize("gamma", [1.0, 0.01])
def test_a_learned_kernel_is_loaded_with_the_slack_that_was_chosen(pool, tmp_path, monkeypatch, work, gamma):
    """Nothing is chosen or fitted again, and the log gets the same value."""
    monkeypatch.setattr(hashed, "validated_kernel", lambda *_, **__: Validated(gamma, {}))
    labels = answers_of(24, 7)
    wanted, log = request("ksh-learned", pool, 1, labels=labels), of_log(labels)
    built = made(tmp_path, wanted, log=log)
    assert work.taken() == ([3000], ["ksh-learned"], ["tables"])
    loaded = made(tmp_path, wanted, log=log)
    assert work.taken() == NOTHING
    assert found(built) == found(loaded)
    assert params_of(built)["gamma"] == params_of(loaded)["gamma"] == gamma


def test_a_family_is_learned_again_from_a_quarter_more_answers(pool, tmp_path, work, caplog):
    """Until then it serves on, and says from which it has learned."""
    old, more, many = answers_of(24, 7), answers_of(29, 12), answers_of(30, 13)
    log = of_log(old, more, many)
    made(tmp_path, request("ksh", pool, 1, labels=old), log=log)
    work.taken()
    search = made(tmp_path, request("ksh", pool, 1, labels=more), log=log)
    assert work.taken() == NOTHING
    assert (params_of(search)["through"], params_of(search)["labels"]) == (7, 24)
    search = made(tmp_path, request("ksh", pool, 1, labels=many), log=log)
    assert work.taken() == ([3000], ["ksh"], ["tables"])
    assert params_of(search)["through"] == 13
    assert caplog.text == ""


@pytest.mark.parametrize("log", ["of other answers", "that ends before"])
def test_what_was_learned_from_answers_that_are_not_in_the_log_is_built_anew(
    pool, tmp_path, work, caplog, log
):
    """Another database may have taken its place; verify has to find what is told."""
    old = answers_of(24, 7)
    made(tmp_path, request("ksh", pool, 1, labels=old), log=of_log(old))
    work.taken()
    others = Labels(old.items, ~old.yes, 7) if log == "of other answers" else old
    now = Labels(others.items, others.yes, 9 if log == "of other answers" else 6)
    search = made(tmp_path, request("ksh", pool, 1, labels=now), log=of_log(others, now))
    assert work.taken() == ([3000], ["ksh"], ["tables"])
    assert params_of(search)["through"] == now.through
    assert "The saved index similar/ksh-1 is rebuilt: it has learned from answers that" in caplog.text


DAMAGE = ["flipped codes", "flipped tables", "no codes", "no tables", "of another pool", "with another seed"]


@pytest.mark.parametrize("damage", [*DAMAGE, "of a newer version"])
def test_what_cannot_be_used_is_told_and_built_again(pool, tmp_path, work, monkeypatch, caplog, damage):
    """And is whole again on the disk."""
    folder, wanted = tmp_path / "indexes", request("lsh", pool, 1)
    expected = found(made(tmp_path / "reference", wanted))
    saved = request("lsh", pool_in(tmp_path, seed=8), 1) if damage == "of another pool" else wanted
    with monkeypatch.context() as before:
        if damage == "with another seed":
            before.setattr(hashed, "SEED", 5)
        made(folder, saved)
    kind, what = damage.split(" ", 1)
    if kind == "flipped":
        file = folder / "lsh" / what / {"codes": "codes-codes.npy", "tables": "entries.npy"}[what]
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    elif kind == "no":
        (folder / "lsh" / what / "index.json").unlink()
    elif damage == "of a newer version":
        manifest = folder / "lsh" / "codes" / "index.json"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    work.taken()
    assert found(made(folder, wanted)) == expected
    only_tables = what == "tables"
    assert work.taken() == (([], [], ["tables"]) if only_tables else ([3000], ["lsh"], ["tables"]))
    word = "similar/lsh/tables" if only_tables else "similar/lsh"
    assert f"The saved index {word} is rebuilt: " in caplog.text
    assert found(made(folder, wanted)) == expected
    assert work.taken() == NOTHING


def test_what_cannot_be_saved_serves_all_the_same(pool, tmp_path, work, caplog):
    """A warning says that it will be built anew."""
    (tmp_path / "indexes").write_text("in the way")
    search = made(tmp_path / "indexes", request("lsh", pool, 1))
    assert found(search) == found(made(tmp_path / "other", request("lsh", pool, 1)))
    assert "The index similar/lsh could not be saved and will be rebuilt next time" in caplog.text


def test_quick_ones_and_those_of_unfinished_pools_are_not_saved(pool, tmp_path, monkeypatch):
    """As the query strategies' are not."""
    made(tmp_path, request("lsh", pool.prefix(2500), 1))
    monkeypatch.setattr(indexes, "CHEAP_SECONDS", 1000)
    made(tmp_path, request("lsh", pool, 1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("source", "name"), each_once(("memory", "disk"), STRUCTURES))
def test_codes_are_extended_when_the_pool_grows(tmp_path, work, source, name):
    """Only rows of blocks that were not whole are hashed; all as if the pool had always had its size."""
    folder = tmp_path / "indexes"
    young = pool_in(tmp_path)
    one, wanted = Kept(folder, no_log), request("lsh", young, 1)
    before = one.coded(wanted, None, unheard)
    one.search(by(name, wanted), before)
    grown = request("lsh", pool_in(tmp_path, 4000), 1)
    work.taken()
    codes = one.coded(grown, before if source == "memory" else None, unheard)
    search = one.search(by(name, grown), codes)
    assert work.taken() == ([4000 - closecall.core.hashing.pool.BLOCK_ROWS], [], [name])
    assert found(search) == found(made(tmp_path / "at-once", grown, name))
    work.taken()
    assert found(made(folder, grown, name)) == found(search)
    assert work.taken() == NOTHING
    doubled = request("lsh", pool_in(tmp_path, 4100), 1)
    assert found(made(folder, doubled, name)) == found(made(tmp_path / "at-once", doubled, name))
    assert work.taken()[1] == ["lsh", "lsh"]


def test_taught_codes_are_extended_with_what_they_learned_from(tmp_path, work):
    """What they are is a function of these answers and of the number of rows."""
    old, more = answers_of(24, 7), answers_of(26, 9)
    one = Kept(tmp_path / "indexes", of_log(old, more))
    before = one.coded(request("ksh", pool_in(tmp_path), 1, labels=old), None, unheard)
    wanted = request("ksh", pool_in(tmp_path, 4000), 1, labels=more)
    work.taken()
    codes = one.coded(wanted, before, unheard)
    assert work.taken()[1:] == ([], [])
    assert codes.labels is not None
    assert codes.labels.through == 7
    assert np.array_equal(
        codes.codes.packed, coded(wanted.pool, None, unheard, Recipe("scan", "ksh"), old)[1].packed
    )


def test_searches_by_other_settings_are_saved_beside_each_other(tmp_path, work):
    """None replaces another, each is loaded with its settings, and codes are extended as the pool grows."""
    recipes = (
        Recipe("tables", memory=64),
        Recipe("tables", radius=10.0, epsilon=2.0),
        Recipe("tables"),
        Recipe("ball", "spectral", form="trimmed"),
        Recipe("orders", "klsh", form="low rank", rank=5, kernel="rbf:gamma=2", landmarks=60, epsilon=2.0),
    )
    structures = [recipe.structure for recipe in recipes]
    young, folder = pool_in(tmp_path), tmp_path / "indexes"

    def each(pool):
        return [made(folder, Wanted(recipe, pool, 1), recipe=recipe) for recipe in recipes]

    built = each(young)
    assert work.taken() == ([3000] * 3, ["lsh", "spectral", "klsh"], structures)
    loaded = each(young)
    assert work.taken() == NOTHING
    assert [found(one) for one in loaded] == [found(one) for one in built]
    assert [params_of(one) for one in loaded] == [params_of(one) for one in built]
    assert [len(list(folder.glob(f"{word}*"))) for word in ("lsh", "spectral", "klsh")] == [1, 1, 1]
    grown = pool_in(tmp_path, 4000)
    extended = each(grown)
    new = 4000 - closecall.core.hashing.pool.BLOCK_ROWS
    assert work.taken() == ([new] * 3, [], structures)
    folder = tmp_path / "at-once"
    assert [found(one) for one in each(grown)] == [found(one) for one in extended]


def test_tables_for_a_radius_are_loaded(pool, tmp_path, work):
    """As they were built, by probabilities that depend on the fitted family."""
    recipe = Recipe("tables", "shift-invariant", radius=40.0, epsilon=2.0, memory=64)
    built = made(tmp_path, Wanted(recipe, pool, 1), recipe=recipe)
    assert work.taken() == ([3000], ["shift-invariant"], ["tables"])
    assert found(made(tmp_path, Wanted(recipe, pool, 1), recipe=recipe)) == found(built)
    assert work.taken() == NOTHING
    other = Recipe("tables", "shift-invariant", radius=50.0, epsilon=2.0, memory=64)
    made(tmp_path, Wanted(other, pool, 1), recipe=other)
    assert work.taken() == ([], [], ["tables"])


def test_those_used_last_are_kept(pool, tmp_path):
    """Each takes room on the disk: of all others nothing is left. Metrics are counted by themselves."""
    labels = answers_of(24, 7)
    metric, one = learn(pool, labels, parameters()), Kept(tmp_path, of_log(labels))
    wanted = [request(family, pool, 1) for family in ("lsh", "spectral", "shift-invariant")]
    wanted += [request("lsh", pool, concept, metric) for concept in range(1, KEPT_CODES + 2)]
    wanted += [request("ksh", pool, 1, labels=labels)]
    for each in wanted:
        time.sleep(0.02)  # clocks of file systems are coarse
        one.search(each, one.coded(each, None, unheard))
        time.sleep(0.02)
        one.touch("lsh")
    left = ["ksh-1", "lsh", "metric-2", "metric-3", "metric-4", "shift-invariant"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left


OLD, NEW = answers_of(24, 7), answers_of(26, 9)


def _save_for_ever(pool, folder, ready):
    with learning_little():
        _save(pool, folder, ready)


def _save(pool, folder, ready):
    indexes.CHEAP_SECONDS = 0
    both = [request("ksh", Pool.open(pool), 1, labels=labels) for labels in (OLD, NEW)]
    one = Kept(folder, of_log(OLD, NEW))
    taught = [one.coded(wanted, None, unheard) for wanted in both[:1]]
    shutil.rmtree(folder)
    taught.append(one.coded(both[1], None, unheard))
    while True:
        for wanted, codes in zip(both, taught, strict=True):
            one.search(wanted, one._saved(wanted, codes))
        ready.set()  # from the second time on nothing is loaded or compiled: most of the time it saves


@pytest.mark.slow
def test_kill_9_while_saving(pool, tmp_path, work):
    """At any moment: what is there is whole, or is made again; nothing half-written stays."""
    folder = tmp_path / "indexes"
    wanted, log = request("ksh", pool, 1, labels=NEW), of_log(OLD, NEW)
    expected = {}
    for labels in (OLD, NEW):
        own = tmp_path / f"reference-{labels.through}"
        expected[labels.through] = found(made(own, request("ksh", pool, 1, labels=labels), log=log))
    assert expected[7] != expected[9]
    processes = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
    if sys.platform == "linux":
        processes.set_forkserver_preload(["tests.unit.app.indexes.test_saved"])
    rng, left = np.random.default_rng(0), 0
    for attempt in range(KILLS + 50):
        if left and attempt >= KILLS:
            break
        ready = processes.Event()
        child = processes.Process(target=_save_for_ever, args=(pool.path, folder, ready), daemon=True)
        child.start()
        assert ready.wait(600)
        time.sleep(rng.uniform(0, 0.3))
        child.kill()
        child.join()
        left += len(list(folder.glob("*/*.tmp")))
        search = made(folder, wanted, log=log)
        assert found(search) == expected[params_of(search)["through"]]
        assert list(folder.glob("*/*.tmp")) == []
        work.taken()
        again = made(folder, wanted, log=log)
        assert work.taken() == NOTHING
        assert found(again) == found(search)
    assert left


def label_some(similar, item, n):
    similar.look_for(Like(item=item))
    project = similar.session.project
    cells = [cell for cell in card_of(similar)["cells"] if cell["selection"]][:n]
    marked = [
        answer({"item": {"id": cell["id"], "selection": cell["selection"]}}, truth_word(project, cell["id"]))
        for cell in cells
    ]
    submit(similar, marked)
    assert similar.learning.wait(600)


@pytest.mark.slow
def test_an_index_serves_on_while_it_is_extended(tmp_path, work, monkeypatch):
    """The exact scan doesn't stand in again; then there is one of all items."""
    monkeypatch.setattr(closecall.core.hashing.pool, "BLOCK_ROWS", 128)
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        similar, concept, pool = project.similar, project.session().concept, project.pool
        young = pool.prefix(540)

        def items(of):
            method = similar.method(Recipe("tables"), of, None, concept)
            return len(method.search.pool) if method.awaited is None else None

        until(lambda: items(young) == 540)
        work.taken()
        seen = []
        until(lambda: seen.append(items(pool)) or seen[-1] == len(pool))
        assert set(seen) == {540, len(pool)}
        assert work.taken() == ([len(pool) - 512], [], ["tables"])


HOWS = [("tables", "lsh", "both"), ("orders", "spectral", "original"), ("scan", "ksh", "original")]


@pytest.mark.slow
def test_a_restart_loads_what_was_built(tmp_path, work):
    """Of every kind, with the metric learned again; and verify finds what was found by what was loaded."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        similar, key = project.similar_to(project.session()), project.key
        some = [project.pool.ids[project.pool.truth(project.pool.ids) == cls][0] for cls in (7, 1)]
        for item in some:
            label_some(similar, int(item), 12)
        session_id = similar.session.id
        before = {}
        for how in HOWS:
            before[how] = looked(similar, *how, int(some[0]))
        assert work.taken()[0]
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        similar = project.similar_to(project.session(session_id))
        similar.go_to(None)
        card_of(similar)
        assert similar.learning.wait(600)
        after = {how: looked(similar, *how, int(some[0])) for how in HOWS}
        assert work.taken() == NOTHING
        assert after == before
        label_some(similar, int(some[0]), 3)
        folder = project.folder
    assert sorted(path.name for path in (folder / "indexes" / "similar").iterdir()) == [
        "ksh-1",
        "lsh",
        "metric-1",
        "spectral",
    ]
    result = CliRunner().invoke(main, ["verify", str(folder), "--json"])
    assert json.loads(result.output)["problems"] == []


def looked(similar, method, codes, view, item):
    """What is found, by what."""
    similar.set_method(method)
    similar.set_codes(codes)
    similar.set_view(view)
    similar.look_for(Like(item=item))
    card = settled(similar)
    assert card["similar"]["search"]["awaited"] is None
    told = card["similar"]["search"]
    return told["method"], told["compared"], [(cell["id"], cell["value"]) for cell in card["cells"]]
