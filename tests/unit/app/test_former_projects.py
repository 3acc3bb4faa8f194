"""Projects that were made when the program was called Marginalia open, verify and go on."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4
from zipfile import ZipFile

import psycopg
import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.sessions.registry import OpenProject
from tests.folders import ROOT
from tests.projects import answer, give_answers, open_workspace, truth_word, wait_for_index
from tests.storage_kit import ENGINES

FORMER = ROOT / "tests" / "fixtures" / "former_project"
"""See its README."""

RENAMED = {"h-hash": "h-hash-weighted", "bh-hash": "bh-hash-weighted"}


def run(*words: str | Path) -> str:
    """What a command prints, which must succeed."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


@pytest.fixture(params=ENGINES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of the project, which nobody has opened since."""
    with ZipFile(FORMER / "project.zip") as packed:
        packed.extractall(tmp_path)
    folder = tmp_path / "sevens"
    if request.param == "postgresql":
        server, name = request.getfixturevalue("server"), f"former_{uuid4().hex}"
        address = f"postgresql://closecall@/{name}?host={server.folder}"
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        with psycopg.connect(address) as connection:
            connection.execute((tmp_path / "labels.sql").read_bytes())
        (folder / "labels.db").unlink()
        file = folder / "project.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"database": address}))
    return folder


@pytest.fixture
def project(folder: Path) -> Iterator[OpenProject]:
    with open_workspace(folder.parent) as workspace:
        yield workspace.project(folder.name)


def test_it_is_the_same_project(project: OpenProject, folder: Path) -> None:
    """It opens, with a copy of its labels as they were, it verifies, and the labels are what they were.

    The exports are those of the version that made it, but for the names of strategies, the name of the column
    of times, and the columns that are new.
    """
    (copy,) = folder.glob("*.0005-before-*.backup")
    with closing(sqlite3.connect(copy)) as kept:
        assert kept.execute("SELECT version_num FROM alembic_version").fetchone() == ("0005",)
        assert kept.execute("SELECT COUNT(*) FROM answers").fetchone() == (31,)
    assert [(record.annotator, record.strategy) for record in project.log.sessions(1)] == [
        ("Ada", "margin-index"),
        ("Ben", "h-hash-weighted"),
        ("Ada", "bh-hash-weighted:n_candidates=20"),
    ]
    found = json.loads(run("verify", folder, "--json"))
    assert (found["answers"], found["problems"]) == (31, [])

    labels = rows((FORMER / "labels.csv").read_text())
    counts = project.live_concept(1).counts()
    for status in ("yes", "no", "unsure", "skip"):
        assert getattr(counts, status) == sum(row["status"] == status for row in labels)
    sure = [row for row in labels if row["label"]]
    assert all(row["label"] == truth_word(project, int(row["item"])) for row in sure)

    for row in labels:
        row["last_answered_at"] = row.pop("last_answered")
    exported = rows(run("export", folder))
    assert [{name: row[name] for name in labels[0]} for row in exported] == labels
    log = rows((FORMER / "log.csv").read_text())
    for row in log:
        row["strategy"] = RENAMED.get(row["strategy"], row["strategy"])
    assert rows(run("export", folder, "--log")) == log


def test_it_goes_on(project: OpenProject, folder: Path) -> None:
    """From the item in view to the one that the browser has already, and then by the session's strategy."""
    record = project.log.sessions(1)[1]
    last = project.log.last_selection(record.id)
    session = project.session(record.id)
    wait_for_index(project, session.strategy)
    shown = session.in_view()
    assert shown is not None
    assert shown == last
    word = truth_word(project, shown.item)
    coming = sent_ahead(folder, project, shown.id, word)
    given = answer({"item": {"id": shown.item, "selection": shown.id}}, word, next=coming)
    assert session.store([given]).acked == (given["id"],)
    ahead = session.in_view()
    assert ahead is not None
    assert (ahead.id, ahead.strategy) == (coming, "h-hash-weighted")
    assert ahead.n_labels == shown.n_labels + 1
    give_answers(session, 1)
    chosen = session.in_view()
    assert chosen is not None
    # Ada's last answer was stored after the item in view had been selected.
    assert (chosen.strategy, chosen.n_labels) == ("h-hash-weighted", shown.n_labels + 3)
    assert chosen.hyperplane_digest not in (shown.hyperplane_digest, ahead.hyperplane_digest)
    found = json.loads(run("verify", folder, "--json"))
    assert (found["answers"], found["problems"]) == (33, [])


def sent_ahead(folder: Path, project: OpenProject, shown: str, word: str) -> str:
    """The selection that the browser shows after this answer, which the former version sent it."""
    (copy,) = folder.glob("*.backup")
    with closing(sqlite3.connect(copy)) as kept:
        known = kept.execute("SELECT id, selection FROM foreseen ORDER BY seq").fetchall()
    for name, text in reversed(known):
        supposed = json.loads(text)["parameters"].get("supposed", {})
        if (supposed.get("selection"), supposed.get("answer")) == (shown, word):
            return name
    raise AssertionError("Nothing was sent ahead")
