"""The map of a pool as the page gets it, compared with definitions over all items."""

from __future__ import annotations

import gc
import io
import json
import math
import shutil
import time
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import closecall.core.map.build as building
import closecall.core.map.layout as laying_out
from closecall.app.api.map import LiveMap, find_map, is_mapped
from closecall.app.api.map import live as live_map
from closecall.app.api.map.live import SHOWN
from closecall.app.api.map.version import BAND, LEAST_BAND
from closecall.app.display.theme import DARK, LIGHT
from closecall.app.projects.project import Project
from closecall.app.sessions.workspace import current
from closecall.core.errors import InputError
from closecall.core.map import PoolMap, build_map
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from tests.projects import answer, new_project, open_workspace, teach

SEED = 5


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose pool has a map: the first two principal components in place of UMAP.

    A map is brought up to date as often as its state is asked for, whatever it costs.
    """
    monkeypatch.setattr(laying_out, "umap_positions", lambda sample, *, seed: sample[:, :2] * (1 + seed))
    monkeypatch.setattr(building, "BLOCK", 400)
    monkeypatch.setattr(live_map, "SHARE", 1.0)
    with open_workspace(tmp_path) as workspace:
        made = new_project(workspace)
        build_map(made.pool)
        yield made


@pytest.fixture
def session(project):
    """Ada's session, in which nothing is answered yet."""
    return project.session(project.log.start_session(1, "ada", "exhaustive", seed=SEED).id)


@pytest.fixture
def live(session):
    return LiveMap.of(session)


def say(session, word: str) -> int:
    """Answer the item in view with a word; returns the item."""
    shown = session.in_view()
    session.store([answer({"item": {"id": shown.item, "selection": shown.id}}, word)])
    return shown.item


def exact(session) -> tuple[np.ndarray, np.ndarray]:
    """Every item's place as fractions of the map's side, and its score in float64."""
    pool = session.project.pool
    positions = PoolMap.open(pool).positions.astype(np.float64)
    low = positions.min(axis=0)
    extent = positions.max(axis=0) - low
    side = extent.max()
    places = (positions - (low - (side - extent) / 2)) / side
    _, trained = session.concept.trained(pool)
    if trained.hyperplane is None:
        return places, np.zeros(len(pool))
    X = pool.rows(np.arange(len(pool))).astype(np.float64)
    return places, X @ trained.hyperplane.normal.astype(np.float64) + trained.hyperplane.bias


def rgb(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def expected_tile(places, scores, zoom, column, row, n_cells, palette, *, has_hyperplane=True):
    """The pixels of a tile, cell by cell and item by item."""
    n = len(scores)
    margins = np.sort(np.abs(scores))
    edge = margins[max(LEAST_BAND, math.ceil(BAND * n)) - 1] * (1 + 1e-6)
    furthest = margins[int(0.9 * (n - 1))] if has_hyperplane else 1.0
    found, whole = {}, {}
    for (x, y), score in zip(places.tolist(), scores.tolist(), strict=True):
        across, down = (min(int(v * 2**zoom * n_cells), 2**zoom * n_cells - 1) for v in (x, y))
        found.setdefault((across - column * n_cells, down - row * n_cells), []).append(score)
        at = tuple(min(int(v * n_cells), n_cells - 1) for v in (x, y))
        whole[at] = whole.get(at, 0) + 1
    dense = max(1.0, float(np.percentile(list(whole.values()), 99)) / 4**zoom)
    yes, no, grey, paper, ink = (
        rgb(palette[f"{name}Color"]) for name in ("blue", "orange", "gray", "background", "text")
    )
    pale = [(g + p) / 2 for g, p in zip(grey, paper, strict=True)]
    pixels = np.zeros((n_cells, n_cells, 4))
    for (i, j), own in found.items():
        if not (0 <= i < n_cells and 0 <= j < n_cells):
            continue
        side = max(-1.0, min(1.0, sum(own) / len(own) / furthest))
        band = math.sqrt(sum(abs(s) <= edge for s in own) / len(own)) if has_hyperplane else 0.0
        towards = yes if side > 0 else no
        hue = [g + abs(side) * (t - g) for g, t in zip(pale, towards, strict=True)]
        hue = [h + band * (k - h) for h, k in zip(hue, ink, strict=True)]
        opacity = max(0.3 + 0.7 * min(1.0, math.log(1 + len(own)) / math.log(1 + dense)), band)
        pixels[j, i] = [*hue, 255 * opacity]
    return pixels


def pixels_of(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png))).astype(float)


@pytest.mark.parametrize(("theme", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_a_tile_has_the_colours_of_its_items(session, live, theme, palette):
    """Side by the mean score, band by the share of items in it, opacity by their number."""
    teach(session)
    n_cells = live.state()["cells"]
    places, scores = exact(session)
    for spot in [(0, 0, 0), (1, 0, 1), (1, 1, 0)]:
        expected = expected_tile(places, scores, *spot, n_cells, palette)
        assert np.abs(pixels_of(live.tile(*spot, theme=theme)) - expected).max() <= 1.01
    assert expected[..., 3].any()


def test_without_a_hyperplane_there_is_only_density(session, live):
    """All grey, no band, and a lasso shows the lowest ids."""
    state = live.state()
    assert (state["band"], state["positive"], state["labels"], state["version"]) == (None, None, 0, 0)
    places, scores = exact(session)
    expected = expected_tile(places, scores, 0, 0, 0, state["cells"], LIGHT, has_hyperplane=False)
    assert np.abs(pixels_of(live.tile(0, 0, 0, theme="light")) - expected).max() <= 1.01
    found = live.lasso([(-1, -1), (2, -1), (2, 2), (-1, 2)])
    assert [item["id"] for item in found["items"]] == session.project.pool.ids[:SHOWN].tolist()
    assert (found["found"], found["positive"]) == (len(session.project.pool), None)
    assert found["items"][0]["score"] is None


def test_the_band_has_the_items_nearest_the_hyperplane(session, live):
    """A hundredth of them, or a dozen; it is the same each time, and all of it is JSON."""
    teach(session)
    state = live.state()
    _, scores = exact(session)
    margins = np.sort(np.abs(scores))
    assert state["band"]["items"] == LEAST_BAND
    assert state["band"]["margin"] == pytest.approx(margins[LEAST_BAND - 1], rel=1e-4)
    assert state["positive"] == np.count_nonzero(scores > 0)
    assert (state["items"], state["elsewhere"]) == (len(scores), 0)
    assert json.loads(json.dumps(live.about())) == json.loads(json.dumps(state))


def test_an_answer_elsewhere_moves_the_band(session, live):
    """Another person's, as soon as the state is asked for; a skip changes no tile, and an undo goes back."""
    teach(session)
    before = live.state()
    bob = session.project.session(annotator="bob")
    item = say(bob, "no")
    after = live.state()
    assert after["version"] == before["version"] + 1
    assert after["labels"] == before["labels"] + 1
    assert after["band"]["margin"] != before["band"]["margin"]
    places, _ = exact(session)
    row = int(session.project.pool.row_of([item])[0])
    x, y, word = after["marks"][0]
    assert ((x, y), word) == (pytest.approx(places[row].tolist(), abs=1e-4), "no")
    say(bob, "skip")
    assert live.state() == after
    undone = session.project.log.recent_answers(1, 2)[1]
    bob.store([answer({"item": {"id": item, "selection": None}}, "undo", undoes=undone.id)])
    again = live.state()
    assert (again["version"], again["band"], again["labels"]) == (
        after["version"] + 1,
        before["band"],
        before["labels"],
    )
    assert again["marks"] == before["marks"]


def test_after_an_update_the_map_rests(session, live, monkeypatch):
    """Three times as long as it has worked: others may be labeling meanwhile."""
    clock = SimpleNamespace(now=100.0, worked=count())  # a second of work between any two looks
    monkeypatch.setattr(live_map, "SHARE", 0.25)
    monkeypatch.setattr(
        live_map,
        "time",
        SimpleNamespace(monotonic=lambda: clock.now, thread_time=lambda: next(clock.worked)),
    )
    teach(session)
    first = live.state()
    say(session, "no")
    clock.now += 3.9
    assert live.state() == first
    clock.now += 0.2
    assert live.state()["version"] == first["version"] + 1
    clock.now += 10
    live.state()  # nothing has changed, so it need not rest
    say(session, "no")
    assert live.state()["version"] == first["version"] + 2


def test_near_a_point_is_the_nearest_item(session, live):
    """By distance on the map, and none beyond the radius."""
    teach(session)
    live.state()
    places, scores = exact(session)
    pool = session.project.pool
    for x, y in np.random.default_rng(0).random((20, 2)).tolist():
        distances = np.hypot(places[:, 0] - x, places[:, 1] - y)
        nearest = int(distances.argmin())
        found = live.near(x, y, distances[nearest] * 1.01)
        assert found["id"] == pool.ids[nearest]
        assert (found["x"], found["y"]) == pytest.approx(places[nearest].tolist(), abs=1e-5)
        assert found["score"] == pytest.approx(scores[nearest], abs=1e-4)
        assert found["src"].startswith("data:image/")
        assert live.near(x, y, distances[nearest] * 0.99) is None
    with pytest.raises(InputError, match="must be finite numbers, got nan"):
        live.near(math.nan, 0, 1)


def test_near_takes_any_finite_number(live):
    """A radius beyond all bounds has every item in it, and a place beyond all bounds has none near it."""
    assert live.near(0.5, 0.5, 1e200) is not None
    for place in (1e200, -1e308):
        assert live.near(place, place, 1) is None
    assert live.near(0.5, 0.5, -1) is None


def test_a_map_opens_no_source_of_its_own(session, live, project, monkeypatch):
    """Also where the pool has outgrown the map. A source has all names, so a second one takes much memory."""
    shutil.rmtree(project.pool_path / "map" / "00000400")
    source = project.pool.source
    monkeypatch.setattr("closecall.core.pool.contents.open_source", lambda *_: pytest.fail("opened again"))
    live.state()
    found = live.near(0.5, 0.5, 2)
    assert found["alt"] == source.name(found["id"])


def is_inside(x: float, y: float, polygon: list[tuple[float, float]]) -> bool:
    """By the even-odd rule: the sides that a ray to the right crosses."""
    crossed = 0
    for (x1, y1), (x2, y2) in zip(polygon, [*polygon[1:], polygon[0]], strict=True):
        if (y1 > y) != (y2 > y):
            crossed += x < x1 + (y - y1) * (x2 - x1) / (y2 - y1)
    return crossed % 2 == 1


def test_a_lasso_has_the_items_inside_of_it(session, live):
    """Nearest the hyperplane first, a few dozen of them; the rest is counted."""
    teach(session)
    live.state()
    places, scores = exact(session)
    pool = session.project.pool
    star = [
        (0.5 + 0.47 * math.sin(4 * math.pi * i / 5), 0.5 + 0.47 * math.cos(4 * math.pi * i / 5))
        for i in range(5)
    ]
    for polygon in (star, [(0.1, 0.2), (0.9, 0.1), (0.7, 0.9)], [(1.5, 1.5), (2, 2), (2, 1.5)]):
        rows = [row for row, (x, y) in enumerate(places.tolist()) if is_inside(x, y, polygon)]
        found = live.lasso(polygon)
        assert found["found"] == len(rows)
        assert found["positive"] == sum(scores[row] > 0 for row in rows)
        nearest = sorted(rows, key=lambda row: (abs(scores[row]), row))[:SHOWN]
        assert [item["id"] for item in found["items"]] == pool.ids[nearest].tolist()
    assert found["items"] == []


def test_a_lasso_says_what_was_answered(session, live):
    """So that a grid of thumbnails shows which items have a label."""
    teach(session)
    item = say(session, "unsure")
    found = live.lasso([(-1, -1), (2, -1), (2, 2), (-1, 2)])
    stands = {told["id"]: told["stands"] for told in found["items"]}
    with session.concept.lock:
        labels = session.concept.catch_up()
        assert stands == {one: labels.status(one) or "" for one in stands}
    x, y = exact(session)[0][session.project.pool.row_of([item])[0]]
    assert live.near(x, y, 1)["stands"] == "unsure"


@pytest.mark.parametrize(
    ("polygon", "sentence"),
    [
        ([], "at least 3 corners"),
        ([(0, 0), (1, 1)], "at least 3 corners"),
        ([(0, 0), (1, 1), (math.inf, 0)], "finite coordinates"),
        ([(0, 0, 0)] * 3, "at least 3 corners, each of 2"),
        ([(0, 0), (1, 1), (0, 1)] * 67, "at most 200 corners, got 201"),
    ],
)
def test_what_is_no_lasso_is_refused(live, polygon, sentence):
    with pytest.raises(InputError, match=sentence):
        live.lasso(polygon)


def test_what_is_no_tile_is_refused(live):
    """A tile beyond the map, or of no theme."""
    with pytest.raises(InputError, match="no tile"):
        live.tile(0, 1, 0, theme="light")
    with pytest.raises(InputError, match="theme must be one of light, dark, got 'sepia'"):
        live.tile(0, 0, 0, theme="sepia")
    assert live.tile(12, 0, 0, theme="dark") is None or live.tile(12, 1, 1, theme="dark") is None


def test_items_that_have_come_since_are_not_on_the_map(session, project):
    """They are counted, until the map is continued; a map in view follows."""
    teach(session)
    shutil.rmtree(project.pool_path / "map" / "00000400")
    live = LiveMap.of(session)
    state = live.state()
    assert (state["items"], state["elsewhere"]) == (400, len(project.pool) - 400)
    assert live.lasso([(-1, -1), (2, -1), (2, 2), (-1, 2)])["found"] == 400
    build_map(Pool.open(project.pool_path))
    after = live.state()
    assert (after["items"], after["elsewhere"]) == (len(project.pool), 0)
    assert after["version"] == state["version"] + 1


def test_a_map_that_was_read_too_early_is_read_again(session, live, project, monkeypatch):
    """The map of a grown pool may be finished before the project has seen that the pool has grown."""
    teach(session)
    n_before = live.state()["items"]
    with monkeypatch.context() as lagging:
        lagging.setattr(Project, "pool", project.pool)
        build_map(build(source_from(f"digits:{n_before + 100}"), project.pool_path))
        assert live.state()["items"] == n_before
    while len(project.pool) == n_before:
        time.sleep(0.01)
    state = live.state()
    assert (state["items"], state["elsewhere"]) == (n_before + 100, 0)


def test_a_map_that_is_gone_stays_in_view(session, live, project):
    """With a sentence; once it is made again, the sentence goes."""
    teach(session)
    before = live.state()
    (project.pool_path / "map").rename(project.folder / "elsewhere")
    state = live.state()
    assert state == before | {"trouble": state["trouble"]}
    assert "has no map: make one with closecall pool map" in state["trouble"]
    assert live.tile(0, 0, 0, theme="light")
    build_map(Pool.open(project.pool_path), seed=1)
    assert live.state()["trouble"] is None


def test_a_pool_without_a_map_is_refused(session, project):
    """The sentence says how to make one, and not where the pool lies: annotators may read it."""
    folder = project.pool_path / "map"
    for damage, cure in [
        (lambda: (folder / "layout" / "index.json").write_text("{"), "make the map again"),
        (lambda: shutil.rmtree(folder), "make one with closecall pool map"),
    ]:
        damage()
        with pytest.raises(InputError, match=cure) as refused:
            LiveMap.of(session)
        assert str(project.pool_path) not in str(refused.value)


def test_the_page_is_in_the_menu_where_there_is_a_map(project):
    """Whether the project is open or not; what is no project has none."""
    workspace = current()
    assert is_mapped(workspace, project.key)
    for key in (None, "", "nobody", "..", "../pools", "pools"):
        assert not is_mapped(workspace, key)
    shutil.rmtree(project.pool_path / "map")
    assert not is_mapped(workspace, project.key)
    settings = {"pool": "pool", "source": "", "relative_to": "", "database": "mysql://localhost/labels"}
    for damage in ("{", json.dumps(settings)):
        (project.folder / "project.json").write_text(damage)
        assert not is_mapped(workspace, project.key)


def test_viewers_of_a_question_share_its_map(session, project):
    """Another question has another; nobody can guess a key, and a map that nobody views is gone."""
    other = project.session(concept_id=project.add_concept("Is this a 3?").id)
    maps = [LiveMap.of(session), LiveMap.of(project.session(annotator="bob")), LiveMap.of(other)]
    assert maps[0] is maps[1]
    assert maps[0].key != maps[2].key
    assert all(len(one.key) >= 22 and find_map(one.key) is one for one in maps)
    keys = {one.key for one in maps}
    maps.clear()
    gc.collect()
    assert [find_map(key) for key in keys] == [None, None]
    assert LiveMap.of(session).key not in keys


def test_a_text_is_shown_by_its_beginning(session, live, monkeypatch):
    """And what can't be shown has no picture, but a name."""
    pictures = session.project.pictures
    monkeypatch.setattr(pictures, "opening", lambda item: {"title": f"Text {item}", "text": "Once"})
    told = live.near(0.5, 0.5, 2)
    assert told["opening"]["title"] == f"Text {told['id']}"
    assert "src" not in told

    def gone(_: int) -> None:
        raise InputError("the file is gone")

    monkeypatch.setattr(pictures, "opening", gone)
    told = live.near(0.5, 0.5, 2)
    assert (told["src"], told["alt"]) == ("", session.project.pool.source.name(told["id"]))
