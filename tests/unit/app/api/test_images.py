"""Images at their own resolution: whose they are, and whether they look as they should."""

from __future__ import annotations

import io
import json
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pytest
from PIL import Image

from closecall.app.api import images
from closecall.app.api.cards import card_of
from closecall.app.display.originals import TILE
from closecall.app.server.images import _respond
from closecall.app.sessions.grid import LEAST
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from closecall.core.sources.images import read_image

UPRIGHT, LYING = 1, 6
"""EXIF orientations: as stored, and a quarter turn to the right."""


def gradient(width: int, height: int) -> Image.Image:
    """An image in which each place has a colour of its own."""
    across, down = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([across, down, 255 - across], axis=2).astype(np.uint8))


def sixteen_bit(width: int, height: int) -> Image.Image:
    return Image.fromarray(np.linspace(100, 40_000, width * height).astype(np.uint16).reshape(height, width))


def veiled(width: int, height: int) -> Image.Image:
    """More and more transparent from the left to the right."""
    image = gradient(width, height).convert("RGBA")
    image.putalpha(Image.fromarray(np.tile(np.linspace(255, 0, width), (height, 1)).astype(np.uint8)))
    return image


MAKERS = {
    "photo.jpg": lambda: (gradient(1300, 900), {"quality": 95}),
    "lying.jpg": lambda: (gradient(1300, 900), {"quality": 95, "exif": turned(LYING)}),
    "press.jpg": lambda: (gradient(900, 700).convert("CMYK"), {"quality": 95}),
    "deep.png": lambda: (sixteen_bit(800, 600), {}),
    "veil.png": lambda: (veiled(700, 600), {}),
    "tiny.png": lambda: (gradient(28, 28), {}),
}


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.fixture
def project(workspace: Workspace, tmp_path: Path) -> OpenProject:
    """A project on images of all kinds."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, make in MAKERS.items():
        image, options = make()
        image.save(folder / name, **options)
    build(source_from(f"folder:{folder}"), tmp_path / "pool")
    return workspace.project(workspace.create(NewProject(str(tmp_path / "pool"), "Is it large?")))


def named(project: OpenProject, name: str) -> int:
    source = project.pictures.source
    return next(item for item in range(len(source)) if source.name(item) == name)


def asked(project: OpenProject, name: str, **more: object) -> dict[str, str]:
    """The parameters of the request that a page sends."""
    address = images.address(project.key, named(project, name))
    path, _, query = address.partition("?")
    assert path == "image"
    return {**dict(parse_qsl(query)), **{key: str(value) for key, value in more.items()}}


def received(request: dict[str, str]) -> Image.Image:
    response = _respond(request)
    assert response.status_code == 200, response.body
    return Image.open(io.BytesIO(bytes(response.body)))


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "tiny.png"])
@pytest.mark.parametrize("level", [0, 1])
def test_the_tiles_together_are_the_image(
    project: OpenProject, tmp_path: Path, name: str, level: int
) -> None:
    """Turned by the camera's orientation, on white, from any kind of file; no pixel is missing or twice."""
    whole = read_image(tmp_path / "photos" / name, 1 << 30).convert("RGB")
    expected = whole.reduce(1 << level)
    joined = Image.new("RGB", expected.size, "magenta")
    for row in range(-(-expected.height // TILE)):
        for column in range(-(-expected.width // TILE)):
            tile = received(asked(project, name, level=level, column=column, row=row))
            assert max(tile.size) <= TILE
            joined.paste(tile.convert("RGB"), (column * TILE, row * TILE))
    off = np.abs(np.asarray(joined, dtype=int) - np.asarray(expected, dtype=int))
    assert off.mean() < 2
    assert np.quantile(off, 0.999) < 12


def test_a_page_knows_the_size_before_it_has_the_image(project: OpenProject) -> None:
    """Upright, in pixels; the card and the grid give it, and no address where the card has all pixels."""
    sizes = {name: images.original_of(project, named(project, name))["original"] for name in MAKERS}
    assert (sizes["photo.jpg"]["width"], sizes["photo.jpg"]["height"]) == (1300, 900)
    assert (sizes["lying.jpg"]["width"], sizes["lying.jpg"]["height"]) == (900, 1300)
    assert (sizes["tiny.png"]["width"], sizes["tiny.png"]["src"]) == (28, "")
    session = project.session()
    item = card_of(session)["item"]
    assert item["original"] == sizes[item["alt"]]
    grid = project.grid(session)
    grid.resize(LEAST)
    cells = card_of(grid)["cells"]
    assert all(cell["original"] == sizes[cell["alt"]] for cell in cells)


def test_only_the_key_of_the_item_opens_it(project: OpenProject) -> None:
    """Neither another item's nor none, nor one that was made up; the sentence tells nothing."""
    mine = asked(project, "photo.jpg")
    other = asked(project, "veil.png")
    for wrong in (
        {**mine, "key": other["key"]},
        {**mine, "key": ""},
        {**mine, "key": "ä" * 32},
        {**mine, "project": "../" + mine["project"]},
        {**mine, "item": mine["item"] + " "},
        {**mine, "item": "-1"},
        {name: value for name, value in mine.items() if name != "key"},
        {},
    ):
        response = _respond(wrong)
        assert response.status_code == 404
        assert json.loads(bytes(response.body)) == {"problem": "There is no such image"}


def test_a_restart_makes_all_addresses_void(project: OpenProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret is the process's own."""
    request = asked(project, "photo.jpg")
    assert _respond(request).status_code == 200
    monkeypatch.setattr(images, "_secret", b"another")
    assert _respond(request).status_code == 404


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"level": 0}, "column must be a whole number, got ''"),
        ({"level": "0", "column": "x", "row": "0"}, "column must be a whole number, got 'x'"),
        ({"level": 0, "column": 3, "row": 0}, "level 0 has 3 × 2 tiles, got column 3 and row 0"),
        ({"level": 9, "column": 0, "row": 0}, "level must be from 0 to 4, got 9"),
    ],
)
def test_a_wrong_tile_is_refused_in_a_sentence(
    project: OpenProject, more: dict[str, object], sentence: str
) -> None:
    response = _respond(asked(project, "photo.jpg", **more))
    assert (response.status_code, json.loads(bytes(response.body))) == (400, {"problem": sentence})


def test_an_image_that_is_gone_is_said_without_its_path(project: OpenProject, tmp_path: Path) -> None:
    """Only owners may know where the images are."""
    request = asked(project, "photo.jpg")
    (tmp_path / "photos" / "photo.jpg").unlink()
    project.pictures.resolution.cache_clear()
    response = _respond(request)
    said = json.loads(bytes(response.body))["problem"]
    assert response.status_code == 400
    assert said
    assert str(tmp_path) not in said


def test_the_browser_keeps_an_image_and_proxies_do_not(project: OpenProject) -> None:
    response = _respond(asked(project, "photo.jpg"))
    assert response.headers["cache-control"] == "private, max-age=31536000, immutable"
