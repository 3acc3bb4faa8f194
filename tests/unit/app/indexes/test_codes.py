"""Parameters of Find similar's codes: what the log says, and what it said in earlier versions."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.app.indexes import codes
from closecall.app.indexes.codes import (
    MOST_TAUGHT,
    Former,
    coded,
    gamma_of,
    parameters,
    taught_by,
    unfitted,
)
from closecall.app.indexes.recipe import Recipe
from closecall.core.metric.validation import GAMMAS
from closecall.core.pool.build import build
from closecall.core.similar.answers import validated_kernel
from closecall.storage import Labels
from tests.fakes import FakeSource
from tests.families import learning_little


def labels(n: int) -> Labels:
    return Labels(np.arange(n), np.arange(n) % 2 == 0, n)


@pytest.mark.parametrize("family", ["ksh", "ksh-learned"])
def test_a_family_learns_from_as_many_answers_as_the_page_says(family, monkeypatch):
    """All of them up to a limit, which the log has."""
    assert unfitted(Recipe("scan", family), None, 5_000).n_labels == MOST_TAUGHT >= 10_000
    told = parameters(Recipe("scan", family), "weights", labels(1_500))
    assert (told["most_taught"], taught_by(told)["used"], taught_by(told)["of"]) == (
        MOST_TAUGHT,
        1_500,
        1_500,
    )
    monkeypatch.setattr(codes, "MOST_TAUGHT", 1_200)
    many = taught_by({**told, "most_taught": 1_200})
    assert (many["used"], many["of"]) == (1_200, 1_500)
    assert (many["paired"], many["pairs"]) == ((400, 2_000) if family == "ksh-learned" else (None, None))


def test_a_log_without_a_limit_is_of_an_earlier_version():
    """At most 1,000 answers then, and candidates by the angle; the parameters are those of that log."""
    now = parameters(Recipe("scan", "ksh"), "weights", labels(1_500))
    then = {name: value for name, value in now.items() if name not in ("most_taught", "ranked")}
    former = Former.of(then, "ksh")
    assert former == Former(by_angle=True, most_taught=1_000)
    assert parameters(Recipe("scan", "ksh"), "weights", labels(1_500), former) == then
    assert taught_by(then)["used"] == 1_000
    assert Former.of(now, "ksh") == Former()
    plain = parameters(Recipe("scan"), "weights", None)
    assert "ranked" not in plain
    assert parameters(Recipe("scan"), "weights", None, Former.of(plain, "lsh")) == plain
    assert taught_by(plain) is None


def test_a_log_without_the_slack_of_a_learned_kernel_is_of_an_earlier_version():
    """It was a tenth then; cross-validation chooses it now, and the log has it."""
    recipe = Recipe("scan", "ksh-learned")
    now = parameters(recipe, "weights", labels(1_500), gamma=0.01)
    assert Former.of(now, "ksh-learned") == Former(gamma=0.01)
    then = {name: value for name, value in now.items() if name != "gamma"}
    former = Former.of(then, "ksh-learned")
    assert former == Former(gamma=0.1)
    assert parameters(recipe, "weights", labels(1_500), former) == then
    assert Former.of(parameters(Recipe("scan", "ksh"), "weights", labels(9)), "ksh").gamma is None


@pytest.mark.parametrize("n_labels", [12, 90])
def test_the_slack_of_a_learned_kernel_is_chosen_by_the_answers_alone(tmp_path, n_labels):
    """All of them, whatever other rows the family is fitted to; a logged value is taken as it is."""
    pool = build(FakeSource(400, 8), tmp_path / "pool")
    answers = Labels(pool.ids[:n_labels], np.arange(n_labels) % 2 == 0, n_labels)
    recipe = Recipe("scan", "ksh-learned", functions=4)
    with learning_little():
        hasher, _ = coded(pool, None, lambda done, of: None, recipe, answers)  # noqa: ARG005
        X = pool.rows_of(answers.items)
        found = validated_kernel(X, answers.yes, n_anchors=hasher.n_anchors)
        logged, _ = coded(pool, None, lambda done, of: None, recipe, answers, Former(gamma=0.5))  # noqa: ARG005
    assert hasher.gamma == gamma_of(hasher) == found.gamma
    assert found.scores.keys() == set(GAMMAS[:2])
    assert logged.gamma == 0.5
