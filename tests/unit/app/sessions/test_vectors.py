"""Vectors without images on the pages: they are drawn, labeled, searched and verified."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from closecall.app.api.cards import card_of
from closecall.app.cli.main import main
from closecall.app.display.thumbnails import DRAWING_SIZE
from closecall.app.projects.uploaded_images import why_none
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.similar.query import Like
from closecall.app.sessions.similar.session import PAGE
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from closecall.core.sources.heat_map import heat_map
from tests.projects import label, labeled, open_workspace

N, N_QUERIES, D = 500, 20, 16


@pytest.fixture
def rows() -> np.ndarray:
    """Two clouds; the first half of the items belongs to one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N + N_QUERIES, D)).astype("<f4")
    X[: N // 2, 0] += 4
    return X


def written(path: Path, rows: np.ndarray) -> Path:
    """The rows as .fvecs."""
    table = np.zeros(len(rows), dtype=[("length", "<i4"), ("numbers", "<f4", (D,))])
    table["length"], table["numbers"] = D, rows
    table.tofile(path)
    return path


def test_vectors_of_known_class_are_labeled_and_verified(tmp_path: Path, rows: np.ndarray) -> None:
    """Each card has its drawing; accuracy is measured on held-out rows; the log replays."""
    base = written(tmp_path / "base.fvecs", rows[:N])
    (tmp_path / "classes.txt").write_text("7\n" * (N // 2) + "1\n" * (N // 2))
    build(source_from(f"vectors:{base},{tmp_path}/classes.txt"), tmp_path / "pool")
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(workspace.create(NewProject(str(tmp_path / "pool"), "Is this a 7?")))
        card = label(labeled(project, 5), 5)
        picture = Image.open(io.BytesIO(base64.b64decode(card["item"]["src"].partition(",")[2])))
        drawn = heat_map(rows[card["item"]["id"]], DRAWING_SIZE)
        assert np.abs(np.asarray(picture, float) - np.asarray(drawn, float)).mean() < 3  # it is a JPEG
        assert card["notes"]["accuracy"] is not None
        folder = project.folder
    found = CliRunner().invoke(main, ["verify", str(folder)])
    assert found.exit_code == 0, found.output


def test_similar_vectors_are_those_of_brute_force(tmp_path: Path, rows: np.ndarray) -> None:
    """Nearest by angle, without the queries, which are held out."""
    base, queries = written(tmp_path / "b.fvecs", rows[:N]), written(tmp_path / "q.fvecs", rows[N:])
    build(source_from(f"vectors:{base},{queries}"), tmp_path / "pool")
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(workspace.create(NewProject(str(tmp_path / "pool"), "Is it a corner?")))
        assert "features can't be computed from an image" in (why_none(project.pool) or "")
        similar = project.similar_to(project.session())
        for item in (7, 400):
            similar.look_for(Like.of(str(item)), 0)
            card = card_of(similar)
            cosines = unit[:N] @ unit[item]
            cosines[item] = -2
            assert [cell["id"] for cell in card["cells"]] == np.argsort(-cosines)[:PAGE].tolist()
