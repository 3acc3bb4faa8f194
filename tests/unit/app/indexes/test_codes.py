"""Parameters of Find similar's codes: what the log says, and what it said in earlier versions."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.app.indexes import codes
from closecall.app.indexes.codes import MOST_TAUGHT, Former, parameters, taught_by, unfitted
from closecall.app.indexes.recipe import Recipe
from closecall.storage import Labels


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
