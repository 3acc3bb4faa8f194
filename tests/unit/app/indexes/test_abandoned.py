"""Builds that nobody waits for any more end early, and leave nothing that could be taken for whole."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array, random_array

import closecall.core.hashing.pool
from closecall.app.api.cards import card_of
from closecall.app.cli.main import main
from closecall.app.indexes import saved, strategies
from closecall.app.indexes.codes import built, coded
from closecall.app.indexes.recipe import Recipe
from closecall.app.pages import chosen
from closecall.app.sessions import session_state
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.similar.query import Like
from closecall.app.sessions.similar.session import SimilarSession
from closecall.core.hashing import FAMILIES
from closecall.core.numerics.interruption import go_on, interruptible
from closecall.core.search import built_for_points
from tests.families import learning_little
from tests.projects import new_project, open_workspace
from tests.similar import answer_truly, settled
from tests.waiting import until

SLOW = Recipe("scan", functions=96)
OTHER = Recipe("scan", "spectral", functions=48)


@pytest.fixture(autouse=True)
def everything_is_saved(monkeypatch):
    """However quickly it was built."""
    monkeypatch.setattr(strategies, "CHEAP_SECONDS", 0)


@pytest.fixture
def similar(project) -> SimilarSession:
    return begun(project)


def begun(project: OpenProject, annotator: str = "ann") -> SimilarSession:
    """A view that shows items like the first one."""
    similar = project.similar_to(project.session(annotator=annotator))
    similar.look_for(Like(item=int(project.pool.ids[0])))
    return similar


class Endless:
    """Hashing that goes on until it is stopped, for codes of `SLOW.functions` functions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started, self.ended, self.released = (threading.Event() for _ in range(3))
        self.advances = 0
        hash_on = closecall.core.hashing.pool.hash_on

        def slowly(hasher, blocks, n_rows, advanced, before=None):
            if hasher.n_functions != SLOW.functions:
                return hash_on(hasher, blocks, n_rows, advanced, before)
            self.ended.clear()
            self.started.set()
            try:
                while not self.released.is_set():
                    self.advances += 1
                    advanced(n_rows // 2)
                    time.sleep(0.002)
            finally:
                self.ended.set()
            return hash_on(hasher, blocks, n_rows, advanced, before)

        monkeypatch.setattr("closecall.app.indexes.codes.hash_on", slowly)

    def goes_on(self) -> bool:
        """Whether it is still under way after more than one more step."""
        before = self.advances
        until(lambda: self.ended.is_set() or self.advances > before + 3)
        return not self.ended.is_set()


@pytest.fixture
def endless(monkeypatch) -> Endless:
    made = Endless(monkeypatch)
    yield made
    made.released.set()


def start(similar: SimilarSession, endless: Endless, recipe: Recipe = SLOW) -> None:
    """Request codes, and wait until they are under way."""
    endless.started.clear()
    similar.set_recipe(recipe)
    card_of(similar)
    assert endless.started.wait(300)


def folders(project: OpenProject) -> list[str]:
    """Names of all that is saved."""
    return sorted(path.name for path in (project.folder / "indexes" / "similar").glob("*"))


def index_of(project: OpenProject, recipe: Recipe):
    return project.similar._plain[recipe.codes, None]


def by_itself(project: OpenProject, recipe: Recipe) -> list[int]:
    """The nearest to the first item, by an index built in one go."""
    pool = project.pool
    search = built(recipe, pool, *coded(pool, None, lambda done, of: None, recipe))  # noqa: ARG005
    return search.neighbours(pool.rows(np.array([0])), 24, exclude=pool.ids[:1]).ids.tolist()


def shown(similar: SimilarSession) -> list[int]:
    card = settled(similar)
    assert card["similar"]["search"]["awaited"] is None
    return [cell["id"] for cell in card["cells"]]


def test_changed_settings_end_a_build(similar, project, endless):
    """Others are built at once. Nothing of the first is left, and no failure; asked again, it is whole."""
    start(similar, endless)
    similar.set_recipe(OTHER)
    assert shown(similar) == by_itself(project, OTHER)
    assert endless.ended.is_set()
    index = index_of(project, SLOW)
    until(lambda: not index.is_under_way)
    assert (index.coded, dict(index.methods), index.failure, index.share) == (None, {}, None, 0)
    assert project.similar.problem is None
    assert folders(project) == [OTHER.word]
    endless.released.set()
    similar.set_recipe(SLOW)
    assert shown(similar) == by_itself(project, SLOW)
    assert folders(project) == sorted([OTHER.word, SLOW.word])


def test_a_build_goes_on_for_another_session(similar, project, endless):
    """It ends when that one changes its settings, too."""
    other = begun(project, "bob")
    other.set_recipe(SLOW)
    start(similar, endless)
    card_of(other)
    similar.set_recipe(Recipe())
    card_of(similar)
    assert endless.goes_on()
    other.set_recipe(Recipe())
    assert endless.ended.wait(60)


def test_settings_that_change_back_keep_a_build(similar, endless):
    """And one of the structure or of the candidates concerns no codes."""
    start(similar, endless)
    similar.set_recipe(Recipe("tables", functions=SLOW.functions, candidates=9_000))
    card_of(similar)
    assert endless.goes_on()
    similar.set_recipe(SLOW)
    card_of(similar)
    assert endless.goes_on()
    endless.released.set()
    assert len(shown(similar)) == 24


def test_only_the_wanted_structure_is_built_over_codes(similar, endless, monkeypatch):
    """If another was chosen while the codes were made."""
    names = []

    def building(name, codes, **how):
        names.append(name)
        return built_for_points(name, codes, **how)

    monkeypatch.setattr(saved, "built_for_points", building)
    start(similar, endless, Recipe("orders", functions=SLOW.functions))
    similar.set_recipe(Recipe("tables", functions=SLOW.functions))
    card_of(similar)
    endless.released.set()
    assert len(shown(similar)) == 24
    assert names == ["tables"]


@pytest.mark.parametrize("how", ["left", "unattended"])
def test_a_page_that_is_left_ends_a_build(similar, project, endless, monkeypatch, how):
    """For another project, or for long; who comes back finds it built."""
    start(similar, endless)
    if how == "left":
        similar.leave()
        assert endless.ended.wait(60)
    else:
        with monkeypatch.context() as later:
            later.setattr(session_state, "ATTENDED_SECONDS", 0)
            assert endless.ended.wait(60)
            until(lambda: not index_of(project, SLOW).is_under_way)
    assert folders(project) == []
    endless.released.set()
    assert shown(similar) == by_itself(project, SLOW)


def test_another_project_in_the_same_tab_is_such_a_page(workspace, project, monkeypatch):
    """Other pages of the project are not."""
    tab = {}
    monkeypatch.setattr(chosen, "state", tab)
    similar = tab[chosen.WAITING] = begun(project)
    chosen._leave_others(project)
    assert similar.awaited() == [(Recipe(), None)]
    chosen._leave_others(new_project(workspace, "Is this a 3?"))
    assert similar.awaited() == []
    assert tab == {}
    similar.attend()
    assert similar.awaited() == [(Recipe(), None)]


def test_nothing_is_left_for_a_restart(tmp_path, endless):
    """The project is opened and verified as if nothing had been begun."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        similar = begun(project)
        answer_truly(similar, settled(similar), 2)
        start(similar, endless)
        similar.set_recipe(Recipe())
        assert endless.ended.wait(60)
        key, folder = project.key, project.folder
    endless.released.set()
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        assert folders(project) == []
        similar = begun(project)
        similar.set_recipe(SLOW)
        assert shown(similar) == by_itself(project, SLOW)
        answer_truly(similar, card_of(similar), 2)
    result = CliRunner().invoke(main, ["verify", str(folder), "--json"])
    assert json.loads(result.output)["problems"] == []


class Somebody:
    """Who waits for one search, or for none."""

    def __init__(self) -> None:
        self.wanted = [(SLOW, None)]

    def awaited(self):
        return self.wanted


def test_an_extension_that_is_abandoned_leaves_the_index_as_it_was(project, endless, monkeypatch):
    """It serves on, without the new rows; once it is wanted again, it is extended whole."""
    monkeypatch.setattr(closecall.core.hashing.pool, "BLOCK_ROWS", 128)
    similar, concept, pool = project.similar, project.session().concept, project.pool
    young, somebody = pool.prefix(540), Somebody()

    def items(of):
        method = similar.method(SLOW, of, None, concept, somebody)
        return len(method.search.pool) if method.awaited is None else None

    endless.released.set()
    until(lambda: items(young) == 540)
    index = index_of(project, SLOW)
    until(lambda: not index.is_under_way)
    seconds = index.seconds
    endless.released.clear()
    endless.started.clear()
    assert items(pool) == 540
    assert endless.started.wait(300)
    somebody.wanted = [(OTHER, None)]
    assert endless.ended.wait(60)
    until(lambda: not index.is_under_way)
    assert (len(index.coded.codes), index.seconds, index.failure) == (540, seconds, None)
    endless.released.set()
    somebody.wanted = [(SLOW, None)]
    assert items(pool) == 540  # nothing else is needed to serve
    until(lambda: items(pool) == len(pool))
    assert np.array_equal(
        index.coded.codes.packed,
        coded(pool, None, lambda done, of: None, SLOW)[1].packed,  # noqa: ARG005
    )


@pytest.mark.slow
def test_codes_under_a_metric_are_abandoned_too(similar, project, endless):
    """Those of the original features beside them are not: settings change for both, and back for both."""
    for digit in (7, 1):
        first = project.pool.ids[project.pool.truth(project.pool.ids) == digit][0]
        similar.look_for(Like(item=int(first)))
        answer_truly(similar, settled(similar), 12)
    assert similar.learning.wait(600)
    similar.set_view("learned")
    start(similar, endless)
    learned = similar.learning.newest(project.pool)
    assert similar.awaited() == [(SLOW, None), (SLOW, learned)]
    similar.set_recipe(Recipe())
    assert endless.ended.wait(60)
    card_of(similar)
    indexes = [index_of(project, SLOW), project.similar._learned[learned][SLOW.codes]]
    until(lambda: not any(index.is_under_way for index in indexes))
    assert [index.coded for index in indexes] == [None, None]
    endless.released.set()
    similar.set_recipe(SLOW)
    settled(similar)
    assert all(index.coded is not None for index in indexes)


@pytest.mark.parametrize("family", ["boosted", "rbm", "ksh", "ksh-learned"])
def test_learning_a_family_can_be_interrupted(project, family):
    """From the first step on, and at every later one; otherwise a minute may pass."""

    class Enough(BaseException):
        pass

    pool = project.pool
    X, y = pool.rows(np.arange(300)), pool.truth(pool.ids[:300])
    calls = []

    def check(n: int) -> None:
        calls.append(n)
        if len(calls) == n:
            raise Enough

    with learning_little():
        n_functions = 4
        params = {"layers": (16,)} if family == "rbm" else {}
        for n in (1, 4):
            calls.clear()
            with pytest.raises(Enough), interruptible(lambda n=n: check(n)):
                FAMILIES[family](n_functions=n_functions, **params).fit(X, y)
            assert len(calls) == n
        FAMILIES[family](n_functions=1, **params).fit(X, y)
    go_on()  # without a check, nothing happens
    assert len(calls) == 4


def test_a_decomposition_of_sparse_rows_can_be_interrupted():
    """It may take minutes, and takes place in ARPACK."""

    class Enough(BaseException):
        pass

    X = csr_array(random_array((1_200, 300), density=0.05, rng=np.random.default_rng(0), dtype=np.float32))
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise Enough

    with pytest.raises(Enough), interruptible(check):
        FAMILIES["spectral"](n_functions=16).fit(X)
    assert len(calls) == 3
    assert FAMILIES["spectral"](n_functions=16).fit(X).hash_points(X).packed.shape == (1_200, 8)
