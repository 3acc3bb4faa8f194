"""Searches by other settings than the default: they are logged, taken up after a restart, and verified."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of
from closecall.app.cli.main import main
from closecall.app.indexes import codes
from closecall.app.indexes import strategies as indexes
from closecall.app.indexes.codes import FORMER_GAMMA
from closecall.app.indexes.recipe import Recipe
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.similar.query import Like
from closecall.app.sessions.similar.session import SimilarSession
from closecall.core.errors import InputError
from closecall.core.metric.validation import Validated
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from tests.families import learning_little
from tests.projects import new_project, open_workspace, tamper
from tests.similar import answer_truly, settled

KERNELIZED = Recipe(
    "tables", "klsh", form="low rank, transformed", rank=16, landmarks=64, functions=96, memory=64
)
RECIPES = (
    KERNELIZED,
    Recipe("ball", "rbm", form="by class", functions=24),
    Recipe("tables", radius=20.0, functions=512),
    Recipe("tables", "shift-invariant", radius=30.0, epsilon=0.5),
)


@pytest.fixture(scope="module", autouse=True)
def quickly():
    """Slow learners learn little."""
    with learning_little():
        yield


def first_of(project: OpenProject, digit: str) -> int:
    pool = project.pool
    return int(pool.ids[pool.truth(pool.ids) == pool.classes.index(digit)][0])


def search(similar: SimilarSession, recipe: Recipe, item: int) -> dict:
    similar.set_recipe(recipe)
    similar.look_for(Like(item=item))
    card = settled(similar)
    assert card["similar"]["search"]["awaited"] is None
    return card


def last_params(similar: SimilarSession) -> dict:
    *_, record = similar.session.project.log.selections(similar.session.concept.record.id)
    return record.parameters["similar"]["params"]


@pytest.fixture(scope="module")
def searched_once(tmp_path_factory):
    """A project labeled by searches of all kinds, side by side with a learned metric at last; its session."""
    folder = tmp_path_factory.mktemp("settings")
    patch = pytest.MonkeyPatch()
    patch.setattr(indexes, "CHEAP_SECONDS", 0)
    with open_workspace(folder) as workspace, patch.context():
        project = new_project(workspace)
        similar = project.similar_to(project.session())
        sevens, ones = first_of(project, "7"), first_of(project, "1")
        answer_truly(similar, search(similar, Recipe(), sevens), 16)
        answer_truly(similar, search(similar, Recipe(), ones), 16)
        for recipe in RECIPES:
            answer_truly(similar, search(similar, recipe, sevens), 1)
        assert similar.learning.wait(600)
        similar.set_view("both")
        answer_truly(similar, search(similar, KERNELIZED, ones), 1)
        search(similar, KERNELIZED, sevens)
        words = {path.name for path in (project.folder / "indexes" / "similar").iterdir()}
        assert KERNELIZED.word in words
        assert any(word.startswith("metric-1-lsh-from-the-mean-96-") for word in words)
        session = similar.session.id
    patch.undo()
    return project.folder, session


@pytest.fixture
def searched(searched_once, tmp_path):
    """A copy of it."""
    folder, _ = searched_once
    return shutil.copytree(folder, tmp_path / folder.name)


def problems(folder) -> list[str]:
    result = CliRunner().invoke(main, ["verify", str(folder), "--json"])
    return json.loads(result.output)["problems"]


def test_verify_repeats_every_search(searched):
    """From what the log says of its settings."""
    assert problems(searched) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("'$.similar.params.kernel', 'md5'", "kernel must be one of"),
        ("'$.similar.params.kernel', 'intersection'", "at place"),
        ("'$.similar.params.rank', 64", "rank must be less than the number of landmarks, 64, got 64"),
        ("'$.similar.params.functions', 1000000", "functions must be a whole number from 1 to 4,096"),
        ("'$.similar.params.radius', 20", "radius has no effect"),
        ("'$.similar.params.colour', 'red'", "hashed searches have other parameters today"),
    ],
)
def test_verify_notices_other_settings(searched, change, complaint):
    """Those that can't be, and those that find something else."""
    where = "json_extract(parameters, '$.similar.params.family') = 'klsh'"
    tamper(searched, f"UPDATE selections SET parameters = json_set(parameters, {change}) WHERE {where}")
    assert any(complaint in problem for problem in problems(searched))


def test_a_restart_takes_them_up(searched_once, tmp_path):
    """Side by side too, where the metric's list was found with fewer settings."""
    folder, session = searched_once
    shutil.copytree(folder.parent, tmp_path / "again")
    with open_workspace(tmp_path / "again") as workspace:
        project = workspace.project(folder.name)
        similar = project.similar_to(project.session(session))
        similar.go_to(None)
        card_of(similar)
        assert (similar.recipe, similar.view) == (KERNELIZED, "both")


def test_the_slack_of_a_learned_kernel_is_chosen_once_and_then_the_logs(tmp_path, monkeypatch):
    """By cross-validation over the answers; in a log without it, it is that of earlier versions."""
    chosen = FORMER_GAMMA
    monkeypatch.setattr(codes, "validated_kernel", lambda *_, **__: Validated(chosen, {}))
    with open_workspace(tmp_path / "projects") as workspace:
        project = new_project(workspace)
        similar = project.similar_to(project.session())
        answer_truly(similar, search(similar, Recipe(), first_of(project, "7")), 12)
        answer_truly(similar, search(similar, Recipe(), first_of(project, "1")), 12)
        recipe = Recipe("scan", "ksh-learned", functions=8)
        answer_truly(similar, search(similar, recipe, first_of(project, "7")), 2)
        assert last_params(similar)["gamma"] == chosen

    def refuse(*_, **__):
        raise AssertionError("verify chooses no slack")

    monkeypatch.setattr(codes, "validated_kernel", refuse)
    assert problems(project.folder) == []
    where = "json_extract(parameters, '$.similar.params.family') = 'ksh-learned'"
    for change, complains in (
        ("json_remove(parameters, '$.similar.params.gamma')", False),
        ("json_set(parameters, '$.similar.params.gamma', 1.0)", True),
    ):
        folder = shutil.copytree(project.folder, tmp_path / f"copy{complains}")
        tamper(folder, f"UPDATE selections SET parameters = {change} WHERE {where}")
        assert any("at place" in problem for problem in problems(folder)) == complains


def test_bad_settings_change_nothing(tmp_path):
    """And families of another kind of rows are refused."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        similar = project.similar_to(project.session())
        similar.set_method("scan")
        with pytest.raises(InputError, match="functions must be"):
            similar.set_recipe(Recipe("scan", functions=0))
        with pytest.raises(InputError, match="landmarks must be at most 512, the number of rows"):
            similar.set_recipe(Recipe("scan", "klsh", landmarks=5_000))
        with pytest.raises(InputError, match="codes must be one of"):
            similar.set_codes("min-hash")
        assert similar.recipe == Recipe("scan")


def test_codes_by_class_need_answers_of_both_kinds(tmp_path):
    """As supervised ones do; the exact scan answers meanwhile."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        similar = project.similar_to(project.session())
        similar.set_recipe(Recipe("scan", "boosted", form="by class", functions=8))
        similar.look_for(Like(item=first_of(project, "7")))
        card = settled(similar)
        assert card["similar"]["search"]["awaited"]["problem"].endswith(
            "need at least 5 yes and 5 no answers, got 0 and 0"
        )
        answer_truly(similar, card, 20)
        similar.set_recipe(Recipe("scan"))
        answer_truly(similar, search(similar, Recipe("scan"), first_of(project, "1")), 4)
        card = search(
            similar, Recipe("scan", "boosted", form="by class", functions=16), first_of(project, "7")
        )
        assert card["similar"]["search"]["taught"]["used"] == last_params(similar)["labels"] == 24
        assert last_params(similar)["form"] == "by class"


def test_kernels_of_histograms_are_for_histograms(tmp_path):
    """Where features are negative, kernelized codes compare by the cosine; digits keep the papers' χ²."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "v.npy", rng.standard_normal((400, 16)))
    build(source_from(f"vectors:{tmp_path / 'v.npy'}"), tmp_path / "pool")
    with open_workspace(tmp_path / "projects") as workspace:
        vectors = workspace.project(workspace.create(NewProject(str(tmp_path / "pool"), "Is it a corner?")))
        digits = new_project(workspace)
        assert list(vectors.similar.kernels) == ["cosine", "rbf"]
        assert list(digits.similar.kernels) == ["chi2", "intersection", "cosine", "rbf"]
        for project, kernel in ((vectors, "cosine"), (digits, "chi2")):
            similar = project.similar_to(project.session())
            similar.set_method("scan")
            similar.set_codes("klsh")
            assert similar.recipe.value("kernel") == kernel
            similar.look_for(Like(item=int(project.pool.ids[7])))
            assert settled(similar)["similar"]["search"]["awaited"] is None
            similar.set_codes("ksh")
            assert similar.recipe.value("kernel") is None  # RBF, its width from the items
        assert card_of(vectors.similar_to(vectors.session()))["similar"]["kind"] == "vector"
