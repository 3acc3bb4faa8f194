"""Sparse rows of images on the pages: they are searched, uploaded, learned on and given as examples."""

from __future__ import annotations

import base64
import io
import json
import math
import shutil
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.indexes import codes, saved
from closecall.app.indexes.recipe import Recipe
from closecall.app.projects.uploaded_images import why_none
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.similar.query import Like
from closecall.app.sessions.similar.session import PAGE, SimilarSession
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from tests.folders import fresh_folder
from tests.projects import label, open_workspace
from tests.similar import answer_truly, settled


@cache
def sets_pool() -> Path:
    """A few hundred digits by their sets; do not change it."""
    path = fresh_folder() / "pool"
    build(source_from("sets:digits:500"), path)
    return path


@pytest.fixture
def project(tmp_path, monkeypatch) -> OpenProject:
    monkeypatch.setattr("closecall.app.indexes.strategies.CHEAP_SECONDS", math.inf)
    with open_workspace(tmp_path) as workspace:
        yield workspace.project(workspace.create(NewProject(str(sets_pool()), "Is this a 7?")))


@pytest.fixture
def similar(project) -> SimilarSession:
    return project.similar_to(project.session())


def of_class(project: OpenProject, name: str, n: int = 1) -> list[int]:
    pool = project.pool
    return pool.ids[pool.truth(pool.ids) == pool.classes.index(name)][:n].tolist()


def look(similar: SimilarSession, word: object) -> dict:
    similar.look_for(Like.of(str(word)), 0)
    return settled(similar)


def png(project: OpenProject, item: int) -> bytes:
    kept = io.BytesIO()
    project.pool.source.image(item, 256).save(kept, "PNG")
    return kept.getvalue()


def upload(similar: SimilarSession, raw: bytes) -> dict:
    similar.upload({"id": "u", "name": "it.png", "data": base64.b64encode(raw).decode("ascii")})
    return settled(similar)


def nearest(project: OpenProject, item: int) -> tuple[list[int], np.ndarray]:
    """By the angles of dense rows, in float64."""
    X = project.pool.rows(np.arange(len(project.pool))).toarray().astype(np.float64)
    row = project.pool.row_of([item])[0]
    cosines = np.round(X @ X[row] / (np.linalg.norm(X, axis=1) * np.linalg.norm(X[row])), 9)
    order = np.argsort(-cosines, kind="stable")
    order = order[order != row]
    return project.pool.ids[order].tolist(), np.degrees(np.arccos(cosines[order]))


@pytest.mark.parametrize("method", ["exact", "scan", "tables"])
def test_the_nearest_are_found_by_their_angles(project, similar, method):
    """As brute force ranks them: so few rows are all compared."""
    similar.set_method(method)
    item = of_class(project, "7")[0]
    card = look(similar, item)
    assert card["similar"]["problem"] is None
    assert card["similar"]["search"]["awaited"] is None
    assert card["similar"]["kind"] == "image"
    ids, angles = nearest(project, item)
    assert np.allclose([cell["value"] for cell in card["cells"]], angles[:PAGE], atol=1e-3)
    assert len(np.intersect1d([cell["id"] for cell in card["cells"]], ids[:PAGE])) >= PAGE - 2  # equal ones


def problems(project: OpenProject) -> list[str]:
    """What verify objects to."""
    result = CliRunner().invoke(main, ["verify", str(project.folder), "--json"])
    return json.loads(result.output)["problems"]


@pytest.mark.parametrize("method", ["scan", "table"])
def test_searches_of_earlier_versions_are_repeated_as_they_were(project, similar, monkeypatch, method):
    """Sets ranked by their angles: the log doesn't mention the overlap."""
    former = codes.Former(by_angle=True)
    searching, parameters = saved.searching, saved.parameters
    with monkeypatch.context() as then:
        then.setattr(saved, "searching", partial(searching, former=former))
        then.setattr(saved, "parameters", partial(parameters, former=former))
        similar.set_method(method)
        similar.set_codes("min-hash")
        card = look(similar, of_class(project, "7")[0])
    assert card["similar"]["search"]["measure"] == "angle"
    told = project.log.selections(similar.session.concept.record.id)
    hashed = [one.parameters["similar"]["params"] for one in told if one.parameters["similar"]["params"]]
    assert hashed
    assert not any("ranked" in params for params in hashed)
    assert problems(project) == []


def test_sets_are_searched_for_by_their_least_overlap(project, similar):
    """The tables are built by the rule; the log has the radius, and verify repeats the search."""
    recipe = Recipe("tables", "min-hash", radius=40.0, memory=600)
    similar.set_recipe(recipe)
    card = look(similar, of_class(project, "7")[0])
    assert card["similar"]["search"]["awaited"] is None
    *_, record = project.log.selections(similar.session.concept.record.id)
    assert record.parameters["similar"]["params"]["radius"] == 40
    tables = similar.result.methods["original"].search.structure
    # Functions of 4 bits agree with 0.6 + 0.4/16: ⌈0.625⁻⁸⌉ tables of 8 functions, the most in a key.
    assert tables.functions_.shape == (43, 8)
    assert problems(project) == []


@pytest.mark.parametrize("method", ["exact", "scan"])
def test_an_upload_is_described_as_the_pool_is(project, similar, method):
    """The item that it shows, drawn larger, is found first; asked for by its digest, the same are found."""
    similar.set_method(method)
    item = of_class(project, "7")[0]
    assert why_none(project.pool, "Uploads") is None
    card = upload(similar, png(project, item))
    assert card["similar"]["problem"] is None
    assert card["cells"][0]["id"] == item
    assert card["cells"][0]["value"] < card["cells"][1]["value"]
    again = look(similar, similar.like.word)
    assert [cell["id"] for cell in again["cells"]] == [cell["id"] for cell in card["cells"]]


@pytest.mark.thorough
def test_a_metric_is_learned_and_verified(project, similar):
    """Implicitly, from the answers; it ranks the page, by scan and by codes, and verify makes all again."""
    for item in (*of_class(project, "7", 4), *of_class(project, "1", 2)):
        answer_truly(similar, look(similar, item), 8)
    assert similar.learning.wait(600)
    similar.set_view("learned")
    item = of_class(project, "7", 5)[4]
    for method in ("exact", "scan"):
        similar.set_method(method)
        card = look(similar, item)
        assert {cell["list"] for cell in card["cells"]} == {"learned"}
        assert card["similar"]["metric"]["labels"] == 48
    learned = similar.learning.newest(project.pool)
    X = project.pool.rows(np.arange(len(project.pool)))
    norms = np.sqrt(learned.metric.squared_norms(X))
    mapped = learned.metric.inner(X, X) / np.outer(norms, norms)
    row = project.pool.row_of([item])[0]
    angles = np.degrees(np.arccos(np.clip(np.sort(np.delete(mapped[row], row))[::-1], -1, 1)))
    assert np.allclose([cell["value"] for cell in card["cells"]], angles[:PAGE], atol=0.05)
    upload(similar, png(project, item))
    look(similar, "yes")
    label(similar.session, 3)
    result = CliRunner().invoke(main, ["verify", str(project.folder), "--json"])
    found = json.loads(result.output)
    assert found["problems"] == []
    assert found["choices"] > 10


def test_an_example_image_trains_the_classifier(project):
    """What looks like it is asked about first, and verify finds the same."""
    session = project.session()
    item = of_class(project, "7")[0]
    session.add_examples([png(project, item)])
    assert session.in_view().item == item
    label(session, 6)
    result = CliRunner().invoke(main, ["verify", str(project.folder), "--json"])
    assert json.loads(result.output)["problems"] == []


def test_a_classifier_and_a_backup_leave_the_house(project, similar, tmp_path):
    """The model says what its features are, and a backup carries an upload's, all of them."""
    label(similar.session, 20)
    item = of_class(project, "7")[0]
    upload(similar, png(project, item))
    out, backup, restored = tmp_path / "model", tmp_path / "backup.db", tmp_path / "restored"
    shutil.copytree(project.folder, restored)
    shutil.rmtree(restored / "uploads")
    (restored / "labels.db").unlink()
    for words in (
        ["export-model", str(project.folder), "--out", str(out)],
        ["backup", str(project.folder), str(backup)],
        ["restore", str(backup), str(restored)],
    ):
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
    assert "pyramid match" in (out / "model.json").read_text("utf-8")
    kept = {file.name: file.read_bytes() for file in (project.folder / "uploads").iterdir()}
    assert kept == {file.name: file.read_bytes() for file in (restored / "uploads").iterdir()}
    assert len(kept) == 2
