from __future__ import annotations

import io
import json
import math
import shutil
import sqlite3

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.runtime.helpers import Helpers
from closecall.app.sessions.new_project import NewProject
from closecall.core.accelerator.device import Device
from closecall.core.pool.build import build
from closecall.core.selection.auto import FEW_POSITIVES
from closecall.core.selection.base import QueryStrategy
from closecall.core.selection.contenders import CONTENDERS
from closecall.core.selection.margin import MarginIndex
from closecall.core.selection.registry import STRATEGIES
from closecall.core.selection.requests import Choice, Query
from closecall.core.sources import source_from
from tests.projects import (
    answer,
    find_groups,
    label,
    label_with_memory,
    new_project,
    open_workspace,
    tamper,
    truth_word,
    verified,
    wait_for_index,
)
from tests.waiting import until


@pytest.fixture(autouse=True, scope="module")
def _no_index_is_kept():
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("closecall.app.indexes.strategies.CHEAP_SECONDS", math.inf)
        yield


@pytest.fixture(scope="module")
def labeled_folder(tmp_path_factory):
    """A project that was labeled with every kind of answer and several strategies, and closed."""
    with open_workspace(tmp_path_factory.mktemp("verify")) as workspace:
        project = new_project(workspace)
        session = project.session()
        card = label(session, 12)
        given = answer(card, "skip")
        card = submit(session, [given])
        given = answer(card, "yes")
        after = submit(session, [given])
        submit(session, [answer(card, "no", corrects=given["id"])])
        again = answer(after, "no")
        submit(session, [again])
        submit(session, [answer(after, "undo", selection=None, undoes=again["id"])])
        label(session, 3)
        for strategy in ("exhaustive", "h-hash", "h-hash-weighted", "subsample", "random"):
            wait_for_index(project, strategy)
            session.set_strategy(strategy)
            label(session, 4)
        for mixture in ("mixture", "mixture:margin=0.2,likely=0.4,random=0.4"):
            wait_for_index(project, mixture)
            session.set_strategy(mixture)
            label(session, 8)
        session.set_strategy("margin-index")
        label_with_memory(session, 20)
        session.revisit_skipped()
        label(session, 2)
    return project.folder


@pytest.fixture
def project_folder(labeled_folder, tmp_path):
    """A copy of it."""
    return shutil.copytree(labeled_folder, tmp_path / labeled_folder.name)


class LowestOfAll(QueryStrategy):
    """Selects the items with the lowest ids, with or without a hyperplane."""

    name = "lowest-of-all"
    needs_hyperplane = False

    def choose(self, query: Query) -> Choice:
        rows = np.flatnonzero(query.allowed(self.pool_.ids))[: query.n]
        margins = np.full(len(rows), np.nan)
        if query.hyperplane is not None:
            margins = self.reader_.margins(rows, query.hyperplane)
        return Choice(self.pool_.ids[rows], margins, scored=0)


@pytest.mark.parametrize(
    ("strategy", "why", "chooser"),
    [
        ("margin-index", "example", "example"),
        ("random", "strategy", "random"),
        ("lowest-of-all", "strategy", "lowest-of-all"),
    ],
)
def test_selections_without_a_hyperplane_are_repeated(tmp_path, monkeypatch, strategy, why, chooser):
    """The log names the strategy if it needs no hyperplane, and what stands in for it otherwise."""
    monkeypatch.setitem(STRATEGIES, LowestOfAll.name, LowestOfAll)
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session()
        wait_for_index(project, strategy)
        session.set_strategy(strategy)
        shown = io.BytesIO()
        project.pool.source.image(int(project.pool.ids[0]), 64).save(shown, "PNG")
        session.add_examples([shown.getvalue()])
        for _ in range(3):
            submit(session, [answer(card_of(session), "yes")])
        last = project.log.last_selection(session.id)
        assert (last.why, last.strategy, last.hyperplane_digest) == (why, chooser, None)
    findings = json.loads(run(project.folder).output)
    assert findings["problems"] == []
    assert findings["choices"] >= 4


def run(folder):
    return CliRunner().invoke(main, ["verify", str(folder), "--json"])


def test_an_honest_log_holds(project_folder):
    """Every hyperplane and every selection of the log is found again by replaying it."""
    result = run(project_folder)
    findings = json.loads(result.output)
    assert findings["problems"] == []
    assert result.exit_code == 0
    assert findings["digests"] == findings["choices"] > 30
    assert findings["answers"] > 30
    assert findings["ranks"]["exhaustive"]["max"] == 0
    assert findings["ranks"]["random"]["selections"] >= 4
    assert findings["ranks"]["margin-index"]["first_share"] > 0.9
    mixed = [findings["ranks"]["mixture" + kind] for kind in ("", ", by score", ", not near")]
    assert sum(ranks["selections"] for ranks in mixed) >= 16
    assert min(ranks["first_share"] for ranks in mixed[:2]) > 0.9
    assert mixed[2]["median"] > 0


def test_a_log_about_a_byte_pool_holds(tmp_path):
    """Scans, the margin index, which reads the pool's own bytes, hashing and mixtures."""
    with open_workspace(tmp_path) as workspace:
        build(source_from("digits:900"), tmp_path / "pool", dtype="byte")
        pool = str(tmp_path / "pool")
        project = workspace.project(workspace.create(NewProject(pool, "Is this a 7?")))
        session = project.session()
        label(session, 12)
        for strategy in (
            "margin-index",
            "exhaustive",
            "h-hash-weighted",
            "mixture",
            "auto",
            "likely-positive",
        ):
            wait_for_index(project, strategy)
            session.set_strategy(strategy)
            label(session, 5)
    result = run(project.folder)
    findings = json.loads(result.output)
    assert findings["problems"] == []
    assert result.exit_code == 0
    assert findings["choices"] > 25
    assert findings["ranks"]["exhaustive"]["max"] == 0
    assert findings["ranks"]["margin-index"]["first_share"] > 0.9


def test_a_log_of_a_server_with_a_device_holds_without_it(tmp_path):
    """Near-exact search scans all items there; the log says so, and the processors find the same items."""
    with open_workspace(tmp_path, helpers=Helpers(device=Device("cpu", "cpu"))) as workspace:
        build(source_from("digits:900"), tmp_path / "pool", dtype="byte")
        project = workspace.project(workspace.create(NewProject(str(tmp_path / "pool"), "Is this a 7?")))
        until(lambda: project.indexes.device_state == "ready")
        session = project.session()
        label(session, 12)
        for strategy in ("margin-index", "exhaustive", "mixture", "auto", "likely-positive"):
            wait_for_index(project, strategy)
            session.set_strategy(strategy)
            label(session, 5)
        records = list(project.log.selections(session.concept.record.id))
    assert {one.parameters["confidence"] for one in records if one.strategy == "margin-index"} == {1}
    result = run(project.folder)
    findings = json.loads(result.output)
    assert findings["problems"] == []
    assert result.exit_code == 0
    assert findings["choices"] > 25
    for strategy in ("exhaustive", "margin-index"):
        assert findings["ranks"][strategy]["max"] == 0


def test_the_log_says_which_part_of_a_mixture_chose(project_folder):
    """Its selections and those of Auto, and no others, name a part; each part has chosen something."""
    database = sqlite3.connect(project_folder / "labels.db")
    told = database.execute(
        "SELECT strategy, json_extract(parameters, '$.part') FROM selections WHERE why = 'strategy'"
    ).fetchall()
    database.close()
    assert {part for strategy, part in told if strategy == "mixture"} == {"margin", "likely", "random"}
    assert {part for strategy, part in told if strategy not in ("mixture", "auto")} == {None}


def test_both_phases_of_auto_are_replayed(tmp_path):
    """Also when answers are corrected or undone, which changes the phase."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session()
        label(session, 1)
        wait_for_index(project, "auto")
        session.set_strategy("auto")
        card = card_of(session)
        for said in 2 * (7 * ["no"] + ["yes"]):
            card = submit(session, [answer(card, said)])
        for _ in range(FEW_POSITIVES):
            given = answer(card, "yes")
            card = submit(session, [given])
        card = submit(session, [answer(card, "undo", selection=None, undoes=given["id"])])
        card = submit(session, [answer(card, "no")])
        label(session, 2)
    database = sqlite3.connect(project.folder / "labels.db")
    told = database.execute(
        "SELECT json_extract(parameters, '$.part') FROM selections WHERE strategy = 'auto'"
    )
    assert {"margin", "likely"} <= {part for (part,) in told}
    database.close()
    findings = json.loads(run(project.folder).output)
    assert findings["problems"] == []
    ranks = findings["ranks"]
    assert ranks["auto"]["selections"] + ranks["auto, by score"]["selections"] > 20
    assert min(ranks["auto"]["first_share"], ranks["auto, by score"]["first_share"]) > 0.9


def test_what_auto_chooses_outside_the_margin_is_replayed(tmp_path, monkeypatch):
    """With an edge that is soon reached; with another edge, other parts would have chosen."""
    monkeypatch.setattr("closecall.core.selection.auto.EDGE", 0.01)
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session()
        label(session, 20)
        wait_for_index(project, "auto")
        session.set_strategy("auto")
        label(session, 30)
    with sqlite3.connect(project.folder / "labels.db") as database:
        told = database.execute(
            "SELECT json_extract(parameters, '$.part') FROM selections WHERE strategy = 'auto'"
        ).fetchall()
    assert {("margin",), ("unlike",)} <= set(told)
    assert json.loads(run(project.folder).output)["problems"] == []
    monkeypatch.undo()
    problems = json.loads(run(project.folder).output)["problems"]
    assert len(problems) >= sum(part == ("unlike",) for part in told)


def test_what_auto_chooses_outside_the_margin_meets_everything_else(tmp_path, monkeypatch):
    """Groups of near-duplicates, grids, an undone answer, a second person, an audit, and a restart."""
    monkeypatch.setattr("closecall.core.selection.auto.EDGE", 0.01)
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        find_groups(project, 3)
        project.set_overlap(2, 0.2)
        session = project.session()
        session.set_audit_share(0.1)
        label(session, 20)
        wait_for_index(project, "auto")
        session.set_strategy("auto")
        card = label(session, 15)
        given = answer(card, "yes")
        card = submit(session, [given])
        submit(session, [answer(card, "undo", selection=None, undoes=given["id"])])
        grid = project.grid(session)
        grid.resize(12)
        for _ in range(3):
            cells = [{"item": {"id": c["id"], "selection": c["selection"]}} for c in card_of(grid)["cells"]]
            words = [truth_word(project, cell["item"]["id"]) for cell in cells]
            submit(grid, [answer(cell, word) for cell, word in zip(cells, words, strict=True)])
        other = project.session(project.log.start_session(1, "bob", "auto", seed=6).id)
        label(other, 10)
        last = session.id
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(project.folder.name)
        wait_for_index(project, "auto")
        label(project.session(last), 10)
        verified(project)
    with sqlite3.connect(project.folder / "labels.db") as database:
        told = database.execute(
            "SELECT session_id, json_extract(parameters, '$.part'), json_extract(parameters, '$.batch.n')"
            " FROM selections WHERE strategy = 'auto'"
        ).fetchall()
    unlike = [(session_id, n) for session_id, part, n in told if part == "unlike"]
    assert {session_id for session_id, _ in unlike} == {last, other.id}
    assert {n for _, n in unlike} == {None, 12}


@pytest.mark.parametrize("name", sorted(CONTENDERS))
def test_what_contenders_choose_is_replayed(tmp_path, name):
    """From the labels that there were, also after one was undone."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session()
        label(session, 6)
        wait_for_index(project, name)
        session.set_strategy(name)
        card = card_of(session)
        for said in ("yes", "no", "no", "yes", "skip", "no"):
            card = submit(session, [answer(card, said)])
        given = answer(card, "yes")
        card = submit(session, [given])
        card = submit(session, [answer(card, "undo", selection=None, undoes=given["id"])])
        card = submit(session, [answer(card, "no")])
        label(session, 3)
    findings = json.loads(run(project.folder).output)
    assert findings["problems"] == []
    assert findings["ranks"][name]["selections"] >= 8


def test_strategies_that_asked_one_index_are_made_again_from_one(project_folder, monkeypatch):
    """Replaying a mixture builds no second margin index, whatever its shares."""
    fits, fit = [], MarginIndex.fit

    def noted(self, pool, *, progress=None):
        fits.append(len(pool))
        return fit(self, pool, progress=progress)

    monkeypatch.setattr(MarginIndex, "fit", noted)
    assert json.loads(run(project_folder).output)["problems"] == []
    assert len(fits) == 1


def test_what_sessions_remembered_is_made_again(project_folder, monkeypatch):
    """Of the hyperplane that the log names, which was trained again; several share a pass over the pool."""
    passes, remember = [], MarginIndex.remember

    def noted(self, hyperplanes):
        passes.append([plane.digest for plane in hyperplanes])
        return remember(self, hyperplanes)

    monkeypatch.setattr(MarginIndex, "remember", noted)
    monkeypatch.setattr("closecall.app.verification.verify.REMEMBERED_AT_ONCE", 7)
    assert json.loads(run(project_folder).output)["problems"] == []
    assert sum(map(len, passes)) >= 19
    assert max(map(len, passes)) == 7


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("UPDATE answers SET answer = 'yes' WHERE answer = 'no' AND seq < 9", "the labels give hyperplane"),
        ("UPDATE selections SET margin = margin + 0.001 WHERE margin IS NOT NULL", "wᵀx"),
        ("UPDATE selections SET seed = seed + 1 WHERE strategy = 'random'", "chooses item"),
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.remembered', 'made-up') "
            "WHERE strategy = 'margin-index'",
            "made-up was remembered, which no labels gave before",
        ),
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.likely', 0.41, '$.random', 0.39), "
            "seed = seed + 1 WHERE strategy = 'mixture'",
            "mixture chooses item",
        ),
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.part', 'magic') "
            "WHERE strategy = 'mixture'",
            "of mixture chooses, the log has part magic",
        ),
        (
            "UPDATE answers SET item = item + 1 WHERE selection_id IS NOT NULL AND undoes IS NULL",
            "showed item",
        ),
    ],
)
def test_a_log_that_was_tampered_with_does_not(project_folder, statement, complaint):
    """A changed answer, distance, seed or item is noticed, and named."""
    tamper(project_folder, statement)
    result = run(project_folder)
    assert result.exit_code == 1
    assert any(complaint in problem for problem in json.loads(result.output)["problems"])
