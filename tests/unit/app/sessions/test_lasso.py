"""A lasso on the map as a grid, compared with a polygon and a hyperplane item by item."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import closecall.core.map.build as building
import closecall.core.map.layout as laying_out
from closecall.app.api.cards import card_of, submit
from closecall.app.api.map import LiveMap
from closecall.app.cli.main import main
from closecall.app.engine.lasso import PAGE, Lasso
from closecall.app.engine.selection_parameters import GROUP_RULE, GROUPS, LASSO, POLYGON, SKIPPED_TOO
from closecall.app.projects.descriptions import planned
from closecall.app.sessions.lasso import LassoSession
from closecall.app.sessions.registry import OpenProject
from closecall.core.errors import InputError
from closecall.core.map import PoolMap, build_map
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from tests.projects import (
    find_groups,
    give_answers,
    marks,
    new_project,
    open_workspace,
    session_of,
    tamper,
    teach,
    truth_word,
    wait_for_index,
)

SEED = 5
TRIANGLE = [(0.05, 0.1), (0.95, 0.15), (0.6, 0.95)]
EVERYTHING = [(-1, -1), (2, -1), (2, 2), (-1, 2)]
NOTHING = [(1.5, 1.5), (2, 2), (2, 1.5)]


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    """The first two principal components in place of UMAP."""
    monkeypatch.setattr(laying_out, "umap_positions", lambda sample, *, seed: sample[:, :2] * (1 + seed))
    monkeypatch.setattr(building, "BLOCK", 400)


@pytest.fixture
def project(workspace) -> OpenProject:
    made = new_project(workspace)
    build_map(made.pool)
    return made


@pytest.fixture
def session(project):
    """Ada's session, in which nothing is answered yet."""
    return session_of(project, "ada", seed=SEED)


def drawn(session, polygon=TRIANGLE) -> Lasso:
    """A lasso as the browser sends it back; the corners are fractions of the map's side."""
    return Lasso.of(json.loads(json.dumps(LiveMap.of(session).lasso(polygon)["lasso"])))


def look(session, polygon=TRIANGLE) -> LassoSession:
    view = session.project.enclosed(session)
    view.look_in(drawn(session, polygon))
    return view


def is_inside(x, y, polygon) -> bool:
    """By the even-odd rule: the sides that a ray to the right crosses."""
    crossed = 0
    for (x1, y1), (x2, y2) in zip(polygon, [*polygon[1:], polygon[0]], strict=True):
        if (y1 > y) != (y2 > y):
            crossed += x < x1 + (y - y1) * (x2 - x1) / (y2 - y1)
    return crossed % 2 == 1


def in_polygon(pool, polygon=TRIANGLE) -> list[int]:
    positions = PoolMap.open(pool).positions.astype(np.float64)
    extent = positions.max(axis=0) - positions.min(axis=0)
    middle = positions.min(axis=0) + extent / 2  # of the map, too
    places = (positions - middle) / extent.max() + 0.5
    found = [row for row, (x, y) in enumerate(places.tolist()) if is_inside(x, y, polygon)]
    return pool.ids[found].tolist()


def nearest(session, polygon=TRIANGLE, *, but=(), again=()) -> list[int]:
    """The items in the polygon without an answer, but for some, nearest the hyperplane first.

    Items in `again` count as if they had no answer.
    """
    pool = session.project.pool
    with session.concept.lock:
        state = session.concept.catch_up()
        left = [
            i for i in in_polygon(pool, polygon) if (state.status(i) is None or i in again) and i not in but
        ]
    _, trained = session.concept.trained(pool)
    if trained.hyperplane is None:
        return left
    plane = trained.hyperplane
    X = pool.rows_of(left).astype(np.float64)
    margins = np.abs((X * plane.normal).sum(axis=1) + plane.bias)
    return [left[place] for place in np.lexsort((left, np.round(margins, 12)))]


def without_repeats(items, groups) -> list[int]:
    """The items without near-duplicates of earlier ones."""
    first, taken = [], set()
    for item in items:
        if item not in taken:
            first.append(item)
            taken.update(groups.members(item).tolist())
    return first


def ids(card) -> list[int]:
    return [cell["id"] for cell in card["cells"]]


def truly(project, cells):
    return marks(cells, [truth_word(project, cell["id"]) for cell in cells])


def log_of(view):
    return list(view.session.project.log.selections(1))


def of_lasso(view):
    return [record for record in log_of(view) if record.why == "lasso"]


def verified(project: OpenProject | Path) -> dict:
    folder = project if isinstance(project, Path) else project.folder
    return json.loads(CliRunner().invoke(main, ["verify", str(folder), "--json"]).output)


def test_the_grid_has_what_is_inside_nearest_first_and_the_log_says_how(project, session):
    """The list on the map begins with the same items; the corners are with the first one alone."""
    teach(session)
    live = LiveMap.of(session)
    live.state()
    listed = live.lasso(TRIANGLE)
    view = look(session)
    expected, inside = nearest(session), in_polygon(project.pool)
    card = card_of(view)
    assert ids(card) == expected[:PAGE]
    open_items = [item["id"] for item in listed["items"] if not item["stands"]]
    assert open_items == expected[: len(open_items)]
    assert (listed["found"], listed["open"]) == (len(inside), len(expected))
    assert 2 * PAGE < len(expected) < len(inside) < len(project.pool)
    assert card["search"] == {
        "text": "",
        "found": len(expected),
        "total": len(inside),
        "first": 0,
        "page": PAGE,
        "longest": 0,
        "lasso": {"problem": None},
    }
    assert (card["notes"]["why"], card["waiting"]) == ("lasso", None)
    records = of_lasso(view)
    assert [record.item for record in records] == expected[:PAGE]
    assert [record.parameters[LASSO] for record in records] == [
        {"n": PAGE, "place": place} for place in range(PAGE)
    ]
    assert [POLYGON in record.parameters for record in records] == [True] + [False] * (PAGE - 1)
    polygon = records[0].parameters[POLYGON]
    assert (polygon["map"], polygon["rows"]) == (PoolMap.open(project.pool).digest, len(project.pool))
    assert len(polygon["corners"]) == len(TRIANGLE)
    assert (np.diff([record.margin for record in records]) > -1e-12).all()
    assert {record.items_scored for record in records} == {len(expected)}
    assert verified(project)["problems"] == []


def test_after_answers_the_hyperplane_chooses_again(project, session):
    """Unmarked items stay, answered ones go, until none is left."""
    teach(session)
    view = look(session)
    card = card_of(view)
    after = submit(view, truly(project, card["cells"][5:]))
    assert len(after["acked"]) == PAGE - 5
    assert ids(after) == nearest(session)[:PAGE]
    assert ids(after) != ids(card)
    submitted = 1
    while after["cells"]:
        after = submit(view, truly(project, after["cells"]))
        assert ids(after) == nearest(session)[:PAGE]
        submitted += 1
    assert submitted > 3
    assert (after["search"]["found"], after["waiting"]) == (0, None)
    assert LiveMap.of(session).lasso(TRIANGLE)["open"] == 0
    findings = verified(project)
    assert findings["problems"] == []
    assert findings["choices"] == findings["digests"]


def test_without_a_hyperplane_the_lowest_ids_come_first(project, session):
    """As on the map; the first yes and no then give a hyperplane."""
    view = look(session)
    card = card_of(view)
    assert ids(card) == in_polygon(project.pool)[:PAGE]
    assert {record.margin for record in of_lasso(view)} == {None}
    after = submit(view, truly(project, card["cells"]))
    assert ids(after) == nearest(session)[:PAGE]
    assert after["notes"]["margin"] is not None
    assert verified(project)["problems"] == []


def test_held_out_items_are_in_no_lasso(project, session):
    """They have no place on the map."""
    view = look(session, EVERYTHING)
    assert view.items(project.pool).tolist() == project.pool.ids.tolist()
    assert len(project.pool.held_out.ids)
    assert not set(view.items(project.pool).tolist()) & set(project.pool.held_out.ids.tolist())


def test_an_empty_lasso_shows_nothing(project, session):
    """And logs nothing; another lasso in its place does."""
    teach(session)
    view = look(session, NOTHING)
    before = len(log_of(view))
    card = card_of(view)
    assert (card["cells"], card["search"]["found"], card["search"]["total"]) == ([], 0, 0)
    assert len(log_of(view)) == before
    assert ids(card_of(look(session))) == nearest(session)[:PAGE]


def test_two_people_in_one_lasso_share_it(project, session):
    """What one has in view is not shown to the other, but in the queue and in searches it is held."""
    teach(session)
    expected = nearest(session)
    bob = session_of(project, "bob", seed=SEED)
    ada_card, bob_card = card_of(look(session)), card_of(look(bob))
    assert (ids(ada_card), ids(bob_card)) == (expected[:PAGE], expected[PAGE : 2 * PAGE])
    assert bob_card["search"]["found"] == len(expected) - PAGE
    given = submit(project.enclosed(bob), truly(project, bob_card["cells"]))
    assert not set(ids(given)) & {*ids(ada_card), *ids(bob_card)}
    assert len(submit(project.enclosed(session), truly(project, ada_card["cells"]))["acked"]) == PAGE
    assert verified(project)["problems"] == []


def test_an_item_that_is_leased_in_between_is_left_to_the_other(project, session, monkeypatch):
    """The selection is made again without it, and the log says so."""
    teach(session)
    expected = nearest(session)
    others = type(project.leases.others(session.id))
    take, raced = others.take, []

    def racing(self, items, apart=()):
        if not raced:
            raced.append(expected[3])
            project.leases.add("another", {expected[3]})
        return take(self, items, apart=apart)

    monkeypatch.setattr(others, "take", racing)
    view = look(session)
    assert ids(card_of(view)) == [item for item in expected if item != raced[0]][:PAGE]
    assert raced[0] in of_lasso(view)[0].leased
    assert verified(project)["problems"] == []


def test_an_item_is_asked_once_where_several_answer_each(project, session):
    """Further opinions are asked for by the queue, not by a lasso."""
    project.set_overlap(2, 1.0)
    teach(session)
    view = look(session)
    submit(view, truly(project, card_of(view)["cells"]))
    card_of(session)  # Ada's next page is free again
    assert session.item_view.ahead.wait(60)
    bob = session_of(project, "bob", seed=SEED)
    held = set(project.leases.held(but_for={bob.id}))
    assert ids(card_of(look(bob))) == nearest(session, but=held)[:PAGE]
    assert card_of(bob)["notes"]["why"] == "overlap"
    assert verified(project)["problems"] == []


def test_near_duplicates_of_what_was_asked_are_left_out(project, session):
    """And of one another, as in the queue; once the owner turns this off, they are there again."""
    find_groups(project, 6)
    teach(session)
    groups = project.duplicates.current
    view = look(session)
    for _ in range(3):
        card = card_of(view)
        asked = set(session.concept.standing().repeats.tolist())
        assert ids(card) == without_repeats(nearest(session, but=asked), groups)[:PAGE]
        assert card["search"]["found"] == len(nearest(session, but=asked))
        submit(view, truly(project, card["cells"][:8]))
    assert {record.parameters[GROUPS] for record in of_lasso(view)} == {groups.digest}
    bob = session_of(project, "bob", seed=SEED)
    held = {member for item in ids(card_of(view)) for member in groups.members(item).tolist()}
    assert not held & set(ids(card_of(look(bob))))
    project.set_ask_once(False)
    view.session.item_view.choose()
    assert card_of(view)["search"]["found"] > len(nearest(session, but=asked))
    assert verified(project)["problems"] == []


def test_a_lasso_is_full_although_many_items_repeat_others(project, session, monkeypatch):
    """By the former rule, it had only what was left of the nearest; each is repeated by its own rule."""
    find_groups(project, 6)
    teach(session)
    groups = project.duplicates.current
    ranked = nearest(session, but=set(session.concept.standing().repeats.tolist()))
    view = look(session)
    with monkeypatch.context() as former:
        for module in ("engine.selection", "sessions.lasso"):
            former.setattr(f"closecall.app.{module}.RULE", 1)
        fewer = ids(card_of(view))
    assert fewer == without_repeats(ranked[:PAGE], groups)
    view.session.item_view.choose()
    full = ids(card_of(view))
    assert full == without_repeats(ranked, groups)[:PAGE]
    assert len(fewer) < len(full)
    rules = [record.parameters[GROUP_RULE] for record in of_lasso(view)]
    assert rules == [1] * len(fewer) + [2] * len(full)
    assert verified(project)["problems"] == []
    of_former = f"why = 'lasso' AND json_extract(parameters, '$.{GROUP_RULE}') = 1"
    by_now = f"json_set(parameters, '$.{GROUP_RULE}', 2)"
    tamper(project.folder, f"UPDATE selections SET parameters = {by_now} WHERE {of_former}")
    assert "the lasso has" in verified(project)["problems"][0]


def test_skipped_items_come_back_on_request(project, session):
    """Only then."""
    teach(session)
    view = look(session)
    card = card_of(view)
    skipped = ids(card)[:3]
    after = submit(view, marks(card["cells"], ["skip"] * 3))
    assert not set(skipped) & set(ids(after))
    session.revisit_skipped()
    again = submit(view, truly(project, after["cells"][:1]))
    assert set(skipped) <= set(ids(again))
    assert of_lasso(view)[-1].parameters[SKIPPED_TOO]
    assert verified(project)["problems"] == []


def test_items_of_the_audit_are_answered_as_all_others(project, session):
    """What is labeled does not depend on the draw. The audit then leaves out what was answered here, too."""
    teach(session)
    session.set_audit_share(1.0)
    give_answers(session, 12)
    audited = set(session.concept.standing().audited.tolist())
    n_drawn = session.concept.audit.judge(project.pool).answers
    assert n_drawn == len(audited) > 5
    view, reached = look(session, EVERYTHING), set[int]()
    card, left = card_of(view), nearest(session, EVERYTHING, again=audited)
    while len(reached) < 3:
        here = ids(card)
        assert here == left[:PAGE]
        n_labels = len(session.concept.standing().labels)
        card = submit(view, truly(project, card["cells"]))
        reached |= audited & set(here)
        assert session.concept.audit.passed() == tuple(sorted(reached))
        assert len(session.concept.standing().labels) == n_labels + len(set(here) - audited)
        assert session.concept.audit.judge(project.pool).answers == n_drawn - len(reached)
        left = nearest(session, EVERYTHING, again=audited - reached)
    assert set(session.concept.standing().audited.tolist()) == audited
    assert verified(project)["problems"] == []


def test_a_grid_can_be_corrected_and_undone(project, session):
    """A corrected item stays answered; an undone one is in the lasso again."""
    teach(session)
    view = look(session)
    card = card_of(view)
    last = submit(view, marks(card["cells"], ["yes", "no", "yes"]))["last"]
    submit(view, marks(last[:1], ["no"], corrects=last[0]["answer_id"]))
    assert session.concept.catch_up().status(last[0]["id"]) == "no"
    assert last[0]["id"] not in ids(card_of(view))
    undone = last[1]
    after = submit(view, marks([undone | {"selection": None}], ["undo"], undoes=undone["answer_id"]))
    assert ids(after) == nearest(session)[:PAGE]
    assert undone["id"] in nearest(session)
    assert verified(project)["problems"] == []


def test_an_answer_that_comes_twice_is_stored_once(project, session):
    """The page in view is the same as after the first time."""
    teach(session)
    view = look(session)
    given = truly(project, card_of(view)["cells"][:4])
    first = submit(view, given)
    again = submit(view, given)
    assert (again["acked"], again["cells"]) == (first["acked"], first["cells"])
    assert verified(project)["problems"] == []


def test_another_question_has_another_lasso(project, session):
    """The same items may be asked about; each question has its own log."""
    other = project.session(concept_id=project.add_concept("Is this a 3?").id)
    look(session)
    assert project.enclosed(other).lasso is None
    assert card_of(project.enclosed(other))["cells"] == []
    assert ids(card_of(look(other))) == in_polygon(project.pool)[:PAGE]


def test_a_lasso_keeps_its_items_while_the_pool_and_the_map_grow(workspace, monkeypatch):
    """What comes later is in the next lasso."""
    project = new_project(workspace, n_items=400)
    small = project.pool
    now = [small]
    build_map(small)
    session = session_of(project, "ada", seed=SEED)
    monkeypatch.setattr(OpenProject, "pool", property(lambda _: now[0]))
    view = look(session)
    before = view.items(now[0]).tolist()
    card = submit(view, truly(project, card_of(view)["cells"]))
    assert card["notes"]["margin"] is not None
    whole = now[0] = build(source_from("digits:600"), small.path)
    assert card_of(view)["cells"] == card["cells"]
    build_map(whole)
    after = submit(view, truly(project, card["cells"][:2]))
    assert view.items(whole).tolist() == before
    assert set(ids(after)) <= set(before)
    assert max(before) < whole.ids[len(small)]
    live = LiveMap.of(session)
    live.state()
    view.look_in(Lasso.of(live.lasso(TRIANGLE)["lasso"]))
    assert view.items(whole).tolist() == in_polygon(whole)
    card_of(view)
    assert verified(project)["problems"] == []


def make_again(project, monkeypatch) -> None:
    """Make the map again with another layout, as after much growth."""
    with monkeypatch.context() as patch:
        patch.setattr(building, "GROWTH", 0)
        build_map(Pool.open(project.pool_path), seed=1)


def test_a_lasso_outlasts_its_map(project, session, monkeypatch, tmp_path):
    """In view, drawn before and opened afterwards, after a restart, and for `verify`."""
    teach(session)
    coming = drawn(session, [(0.2, 0.2), (0.8, 0.3), (0.5, 0.9)])
    view = look(session)
    expected = in_polygon(project.pool)
    card = card_of(view)
    make_again(project, monkeypatch)
    assert PoolMap.open(project.pool).digest != view.lasso.layout
    after = submit(view, truly(project, card["cells"][:9]))
    assert set(ids(after)) <= set(expected)
    bob = session_of(project, "bob", seed=SEED)
    other = project.enclosed(bob)
    other.look_in(coming)
    assert card_of(other)["cells"]
    assert verified(project)["problems"] == []
    key, session_id, inside = project.key, session.id, view.items(project.pool).tolist()
    project.close()
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        view = project.enclosed(project.session(session_id))
        assert card_of(view)["cells"] == after["cells"]
        assert view.items(project.pool).tolist() == inside == expected


def test_a_lasso_is_still_there_after_a_restart(tmp_path, project, session):
    """The same page with the same selections; what was answered meanwhile is counted."""
    teach(session)
    view = look(session)
    before = submit(view, truly(project, card_of(view)["cells"][:7]))
    key, session_id = project.key, session.id
    project.close()
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        view = project.enclosed(project.session(session_id))
        card = card_of(view)
        assert (card["cells"], card["search"]) == (before["cells"], before["search"])
        assert sum(cell["answer"] is not None for cell in card["last"]) == 7
        after = submit(view, truly(project, card["cells"]))
        assert len(after["acked"]) == PAGE
        assert ids(after) == nearest(view.session)[:PAGE]
        assert verified(project)["problems"] == []


def test_a_lasso_belongs_to_the_description_of_its_map(workspace, project, session):
    """Under another one it is refused; each selection is repeated with its map."""
    teach(session)
    view = look(session)
    card = card_of(view)
    submit(view, truly(project, card["cells"][:3]))
    kept, inside = view.lasso, view.items(project.pool).tolist()
    plan = planned(project.folder, "edges")
    plan.path.parent.mkdir(parents=True)
    build(plan.source, plan.path)
    workspace.use_description(project.key, plan.name)
    edges = workspace.project(project.key)
    wait_for_index(edges, "exhaustive")
    late = edges.enclosed(edges.session(session.id))
    with pytest.raises(InputError, match="has no map"):
        late.look_in(replace(kept, n_rows=kept.n_rows - 1))
    build_map(edges.pool)
    with pytest.raises(InputError, match="no longer has its map"):
        late.look_in(replace(kept, n_rows=kept.n_rows - 1))
    other = look(late.session)
    assert set(other.items(edges.pool).tolist()) != set(inside)
    assert ids(card_of(other)) == nearest(late.session)[:PAGE]
    submit(other, truly(edges, card_of(other)["cells"][:5]))
    workspace.use_description(project.key, "")
    back = workspace.project(project.key)
    wait_for_index(back, "exhaustive")
    again = back.enclosed(back.session(session.id))
    again.look_in(kept)
    assert ids(card_of(again)) == nearest(again.session)[:PAGE]
    submit(again, truly(back, card_of(again)["cells"][:5]))
    found = verified(back)
    assert (found["problems"], found["choices"] >= 5) == ([], True)


def test_a_map_that_is_gone_is_said_in_a_sentence(project, session, tmp_path):
    """What is in view can be answered; no lasso can be opened, and `verify` says what it can't repeat."""
    teach(session)
    coming, view = drawn(session, EVERYTHING), look(session)
    card = card_of(view)
    (project.pool_path / "map").rename(project.folder / "elsewhere")
    with pytest.raises(InputError, match="has no map: make one with closecall pool map"):
        view.look_in(coming)
    after = submit(view, truly(project, card["cells"][:2]))
    assert len(after["acked"]) == 2
    assert ids(after) == [i for i in ids(after) if i in view.items(project.pool)]
    assert "can't be repeated: the pool" in verified(project)["problems"][0]
    key, session_id = project.key, session.id
    project.close()
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        view = project.enclosed(project.session(session_id))
        again = card_of(view)
        assert again["cells"] == after["cells"]
        assert "has no map" in again["search"]["lasso"]["problem"]
        done = submit(view, truly(project, again["cells"]))
        assert (len(done["acked"]), done["cells"]) == (PAGE, [])
        (project.folder / "elsewhere").rename(project.pool_path / "map")
        back = card_of(view)
        assert (back["search"]["lasso"]["problem"], len(back["cells"])) == (None, PAGE)
        assert verified(project)["problems"] == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"corners": [[0, 0], [1, 1]]}, "at least 3 corners"),
        ({"corners": [[0, 0], [1, 1], [float("nan"), 0]]}, "finite coordinates"),
        ({"corners": [[0, 0, 0]] * 3}, "the lasso is damaged: too many values"),
        ({"corners": [[0, "x"]] * 3}, "the lasso is damaged: could not convert"),
        ({"corners": 7}, "the lasso is damaged: 'int' object is not iterable"),
        ({"corners": [[0, 0], [1, 1], [0, 1]] * 400}, "at most 200 corners, got 1,200"),
        ({"map": "../../pools"}, r"no longer has its map '\.\./\.\./pools'"),
        ({"map": "0" * 32}, "no longer has its map"),
        ({"map": None}, "needs a map and its number of rows, got None"),
        ({"rows": 10**6}, "drawn on a map with 1,000,000 items, and the map has"),
        ({"rows": -1}, "needs a map and its number of rows"),
        ({"rows": True}, "needs a map and its number of rows"),
        ({"rows": "600"}, "needs a map and its number of rows"),
    ],
)
def test_what_is_no_lasso_is_refused_in_a_sentence(project, session, change, sentence):
    """And the lasso before it stays."""
    view = look(session)
    before = card_of(view)["cells"]
    with pytest.raises(InputError, match=sentence):
        view.look_in(Lasso.of(view.lasso.params() | change))
    assert card_of(view)["cells"] == before
    for nonsense in (None, [], "x", {}):
        with pytest.raises(InputError, match="the lasso is damaged"):
            Lasso.of(nonsense)


@pytest.fixture(scope="module")
def labeled(tmp_path_factory) -> Path:
    """A folder with a project and its pool, labeled in lassos; the map was made again in between."""
    root = tmp_path_factory.mktemp("labeled")
    with pytest.MonkeyPatch.context() as patch, open_workspace(root) as workspace:
        patch.setattr(laying_out, "umap_positions", lambda sample, *, seed: sample[:, :2] * (1 + seed))
        project = new_project(workspace)
        build_map(project.pool)
        session = session_of(project, "ada", seed=SEED)
        teach(session)
        view = look(session)
        submit(view, truly(project, card_of(view)["cells"][:9]))
        patch.setattr(building, "GROWTH", 0)
        build_map(Pool.open(project.pool_path), seed=1)
        live = LiveMap.of(session)
        live.state()
        view.look_in(Lasso.of(live.lasso([(0.1, 0.1), (0.9, 0.2), (0.4, 0.8)])["lasso"]))
        card_of(view)
        return project.folder


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.lasso.place', 70) "
            "WHERE json_extract(parameters, '$.lasso.place') = 2",
            "the lasso has items",
        ),
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.lasso.n', 59) WHERE why = 'lasso'",
            "the lasso has items",
        ),
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.polygon.corners[0][0]', 0.01) "
            "WHERE json_extract(parameters, '$.polygon.map') IS NOT NULL",
            "the lasso has items",
        ),
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.polygon.rows', 300) "
            "WHERE json_extract(parameters, '$.polygon.map') IS NOT NULL",
            "the lasso has items",
        ),
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.polygon.map', 'ffff') "
            "WHERE json_extract(parameters, '$.polygon.map') IS NOT NULL",
            "no longer has its map 'ffff'",
        ),
        (
            "UPDATE selections SET parameters = json_remove(parameters, '$.polygon')",
            "the log lacks the lasso",
        ),
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.polygon.corners', 'x') "
            "WHERE json_extract(parameters, '$.polygon.map') IS NOT NULL",
            "the lasso is damaged",
        ),
        (
            "UPDATE selections SET item = item + 1 WHERE json_extract(parameters, '$.lasso.place') = 4",
            "the lasso has items",
        ),
        (
            "UPDATE selections SET leased = json_array(item) "
            "WHERE json_extract(parameters, '$.polygon.map') IS NOT NULL",
            "the lasso has items",
        ),
        ("UPDATE selections SET margin = margin + 0.001 WHERE why = 'lasso'", "wᵀx"),
        ("UPDATE selections SET hyperplane_digest = 'ffff' WHERE why = 'lasso'", "the log has ffff"),
    ],
)
def test_verify_notices_what_was_chosen_otherwise(labeled, tmp_path, statement, complaint):
    """Other corners, another map, other places or items, or an item that was not free."""
    shutil.copytree(labeled.parent, tmp_path / "copy")
    folder = tmp_path / "copy" / labeled.name
    assert verified(folder)["problems"] == []
    tamper(folder, statement)
    assert any(complaint in problem for problem in verified(folder)["problems"])
