"""A project's images described again: labels stay, and the log says by which features items were selected."""

from __future__ import annotations

import io
import json
import math
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.engine.directions import Direction
from closecall.app.engine.selection_parameters import DIRECTION, SUPPOSED, WORDS, description_of
from closecall.app.projects.config import ProjectFile
from closecall.app.projects.descriptions import cost, descriptions, planned
from closecall.app.projects.pool_builder import Building
from closecall.app.projects.uploads import Uploads
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.similar.query import Like
from closecall.core.errors import InputError
from closecall.core.features import compute, of_image
from closecall.core.learning.round import learn_rows
from closecall.core.pool.build import build
from closecall.core.pool.manifest import Manifest
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from closecall.storage import Concepts, Database, LabelLog, SelectionRecord
from tests.onnx_kit import N_FEATURES, write_model
from tests.projects import (
    answer,
    find_groups,
    give_answers,
    label,
    new_project,
    open_workspace,
    tamper,
    truth_word,
    wait_for_index,
)
from tests.projects import labeled as begin

SMALL = 200
"""Items of most pools here: an index over them is ready at once."""


def png(seed: int) -> bytes:
    """An image of noise, larger than what is kept of it."""
    pixels = np.random.default_rng(seed).integers(0, 256, (300, 290), dtype=np.uint8)
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "PNG")
    return written.getvalue()


def opened(png: bytes) -> Image.Image:
    with Image.open(io.BytesIO(png)) as image:
        return image.copy()


def run(*words: object):
    return CliRunner().invoke(main, [str(word) for word in words])


def refused(*words: object) -> str:
    """The one sentence of a command that is refused."""
    result = run(*words)
    assert result.exit_code == 2, result.output
    return result.stderr.removeprefix("Error: ").strip()


def verified(folder: Path) -> dict:
    return json.loads(run("verify", folder, "--json").output)


def describe(folder: Path, word: object) -> str:
    """Describe a project's images here, as the command does; returns the name of the description."""
    plan = planned(folder, str(word))
    plan.path.parent.mkdir(parents=True, exist_ok=True)
    build(plan.source, plan.path)
    return plan.name


@pytest.fixture(autouse=True, scope="module")
def _no_index_is_kept():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("closecall.app.indexes.strategies.CHEAP_SECONDS", math.inf)
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small" / "model.onnx").parent


@pytest.fixture(scope="module")
def labeled(tmp_path_factory, model):
    """A project labeled by GIST, by a model, and by GIST again, with all that depends on features."""
    with open_workspace(tmp_path_factory.mktemp("described")) as workspace:
        project = new_project(workspace)
        session = project.session(project.log.start_session(1, "ada", "margin-index", seed=5).id)
        key = project.key
        session.add_examples([png(0)])
        session.add_examples([png(1)], positive=False)
        session.set_audit_share(0.3)
        label(session, 12)
        search(project, session.id)
        name = describe(project.folder, model)
        for used, strategy in ((name, "margin-index"), ("", "exhaustive")):
            workspace.use_description(key, used)
            project = workspace.project(key)
            session = project.session(session.id)
            wait_for_index(project, strategy)
            session.set_strategy(strategy)
            session.add_examples([png(7 if used else 8)])
            label(session, 12)
            grid = project.grid(session)
            submit(grid, [answer({"item": cell}, "no") for cell in card_of(grid)["cells"][:3]])
            search(project, session.id)
        assert project.problem() is None
    return project.folder


def search(project, session_id: str) -> None:
    """Find what is like an upload, and answer the first of it."""
    similar = project.similar_to(project.session(session_id))
    similar.look_for(Like(digest=project.uploads.add(png(20), "noise.png", project.pool)))
    (first, *_) = (cell for cell in card_of(similar)["cells"] if cell["selection"])
    word = truth_word(project, first["id"])
    submit(similar, [answer({"item": {"id": first["id"], "selection": first["selection"]}}, word)])


@pytest.fixture
def folder(labeled, tmp_path) -> Path:
    """A copy of it, beside its pool."""
    shutil.copytree(labeled.parent, tmp_path / "copy")
    ProjectFile.change(tmp_path / "copy" / labeled.name, pool=str(*(tmp_path / "copy" / "pools").iterdir()))
    return tmp_path / "copy" / labeled.name


def selections(folder: Path) -> list[SelectionRecord]:
    with Database.open(folder / "labels.db", read_only=True) as database:
        return list(LabelLog(database).selections(1))


def test_every_selection_is_repeated_with_the_features_of_its_time(labeled):
    """Whatever chose it: a strategy, the audit, a grid or a search; with examples and uploads."""
    found = verified(labeled)
    assert found["problems"] == []
    records = selections(labeled)
    by_name = {name: [r for r in records if description_of(r) == name] for name in ("", "small")}
    for some in by_name.values():
        assert {"strategy", "audit", "similar"} <= {record.why for record in some}
        assert all(record.hyperplane_digest for record in some[-10:])
    assert found["choices"] > 40
    first, last = (by_name["small"][place].seq for place in (0, -1))
    assert {record.seq < first or record.seq > last for record in by_name[""]} == {True}


def test_hyperplanes_are_those_of_the_description(labeled):
    """That of the first selection after the switch, when another example was added to two that were there."""
    record = next(one for one in selections(labeled) if description_of(one) == "small")
    pool = Pool.open(labeled / "descriptions" / "small" / "pool")
    with Database.open(labeled / "labels.db", read_only=True) as database:
        labels = LabelLog(database).labels(1, record.trained_through)
        images = [example.image for example in Concepts(database).examples(1, 2)]
    assert SUPPOSED not in record.parameters
    X, _, _ = compute(pool.source, labels.items)
    examples = [of_image(opened(image), pool.source) for image in (*images, png(7))]
    trained = learn_rows(
        np.stack([*X, *examples]),
        np.array([*labels.yes, True, False, True]),
        np.array([*labels.items, -2, -3, -4]),
        C=record.c,
        class_weight=record.class_weight,
    )
    assert trained.hyperplane.digest == record.hyperplane_digest
    margin = abs(trained.hyperplane.scores(compute(pool.source, np.array([record.item]))[0])[0])
    assert margin == pytest.approx(record.margin, rel=1e-6)


def test_verify_notices_a_selection_under_another_description(folder):
    """The mark in the log says which features are right."""
    tamper(folder, "UPDATE selections SET parameters = json_remove(parameters, '$.described')")
    assert len(verified(folder)["problems"]) > 10


def test_a_missing_description_is_one_sentence(folder):
    """The selections of the others are repeated all the same."""
    n_under = sum(description_of(record) == "small" for record in selections(folder))
    shutil.rmtree(folder / "descriptions")
    (problem,) = verified(folder)["problems"]
    assert problem.startswith(f"{n_under} selections under the description small can't be repeated: There")
    with open_workspace(folder.parent) as workspace:
        project = workspace.project(folder.name)
        assert project.problem() is None
        judged = project.live_concept(1).audit.judge(project.pool)
        assert judged is not None
        assert judged.answers > 0


def test_the_audit_counts_what_was_drawn_under_each_description(folder):
    """Each draw by the features that its frame was made from."""
    with open_workspace(folder.parent) as workspace:
        for name in ("", "small"):
            workspace.use_description(folder.name, name)
            project = workspace.project(folder.name)
            audit = project.live_concept(1).audit
            drawn = {description_of(record) for record in audit._drawn().values()}
            assert drawn == {"", "small"}
            judged = audit.judge(project.pool)
            assert judged is not None
            assert 0 <= judged.prevalence.low <= judged.prevalence.estimate <= judged.prevalence.high <= 1


def test_a_backup_takes_the_examples_and_uploads_along(folder, tmp_path):
    """Also to a project that has never been described again: verify then lacks the other features only."""
    assert run("backup", folder, tmp_path / "copy.backup").exit_code == 0
    shutil.rmtree(folder / "uploads")
    assert run("restore", tmp_path / "copy.backup", folder, "--force").exit_code == 0
    assert verified(folder)["problems"] == []


@pytest.fixture
def project(workspace):
    return new_project(workspace, n_items=SMALL)


def test_all_items_are_the_same(project, model):
    """Ids, held-out items and classes; only the features are the model's."""
    name = describe(project.folder, model)
    pool = Pool.open(project.folder / "descriptions" / name / "pool")
    assert pool.ids.tolist() == project.pool.ids.tolist()
    assert pool.held_out.ids.tolist() == project.pool.held_out.ids.tolist()
    assert pool.truth(pool.ids).tolist() == project.pool.truth(pool.ids).tolist()
    assert pool.classes == project.pool.classes
    expected = compute(pool.source, pool.ids[:20])[0]
    assert np.array_equal(pool.rows(np.arange(20)), expected)
    assert pool.n_features == N_FEATURES


def test_an_interrupted_description_is_continued(project, model):
    """Until it is whole, it can't be used; then it has the same bytes as without an interruption."""
    stop = threading.Event()
    plan = planned(project.folder, str(model))
    plan.path.parent.mkdir(parents=True)
    build(plan.source, plan.path, stop=stop, progress=lambda done: stop.set() if done.done > 50 else None)
    project.close()
    sentence = refused("describe", project.folder, "--use", "small")
    assert sentence == "The description small is not complete: continue it first"
    assert "small: small/model.onnx" in run("describe", project.folder).output
    done = run("describe", project.folder, "--by", model)
    assert done.exit_code == 0, done.output
    whole = build(plan.source, project.folder / "another")
    assert Pool.open(plan.path).digest == whole.digest
    assert run("describe", project.folder, "--use", "small").exit_code == 0
    assert ProjectFile.read(project.folder).description == "small"


def test_the_command_lists_builds_and_uses_descriptions(project, model):
    """What is there already is not built again, and the first description is never lost."""
    project.close()
    folder, n_items = project.folder, len(project.pool.source)
    said = run("describe", folder, "--by", "edges", "--use", "edges").output
    assert f"{folder} is now described by edges." in said
    listed = run("describe", folder).output.splitlines()
    assert listed == [
        f"  first: GIST, 384 features of {n_items} items",
        f"* edges: edge histograms, 150 features of {n_items} items",
        "* is the description in use.",
    ]
    assert run("describe", folder, "--by", "edges", "--quiet").output == ""
    assert run("describe", folder, "--use", "first").exit_code == 0
    assert "description" not in json.loads((folder / "project.json").read_text())
    assert [one.name for one in descriptions(folder)] == ["", "edges"]


def test_features_may_take_half_the_space(project, tmp_path):
    """In float16, also of another output, which is another description."""
    project.close()
    folder = project.folder
    model = write_model(tmp_path / "small" / "model.onnx", outputs=("image_embeds", "tokens")).parent
    assert run("describe", folder, "--by", model).exit_code == 0
    done = run("describe", folder, "--by", f"{model}#tokens", "--dtype", "float16")
    assert done.exit_code == 0, done.output
    manifests = [Manifest.read(folder / "descriptions" / name / "pool") for name in ("small", "small-2")]
    assert [one.dtype for one in manifests] == ["float32", "float16"]
    assert [one.label for one in descriptions(folder)][1:] == [
        f"small/model.onnx, output {name}" for name in ("image_embeds", "tokens")
    ]
    plan = planned(folder, str(model))
    assert cost(plan, "float16")[0] == cost(plan)[0] - 2 * N_FEATURES * len(plan.source)
    assert "has float16 features, got dtype float32" in refused(
        "describe", folder, "--by", f"{model}#tokens", "--dtype", "float32"
    )
    assert "--dtype needs --by" in run("describe", folder, "--dtype", "float16").stderr


def test_models_of_one_name_are_told_apart(project, model, tmp_path):
    """By what they compute: another model gets another name, the same one from elsewhere does not."""
    other = write_model(tmp_path / "other" / "small" / "model.onnx", seed=1).parent
    moved = shutil.copytree(model, tmp_path / "moved" / "first")
    assert describe(project.folder, model) == "small"
    assert planned(project.folder, str(other)).name == "small-2"
    assert planned(project.folder, str(moved)).name == "small"
    assert planned(project.folder, "edges").name == "edges"


def test_what_can_not_be_described_is_one_sentence(project, model, tmp_path):
    """Nothing is begun."""
    project.close()
    folder = project.folder
    assert "The project was made with these features" in refused("describe", folder, "--by", "gist")
    assert "there is no model" in refused("describe", folder, "--by", tmp_path / "nowhere")
    assert "There is no project" in refused("describe", tmp_path, "--by", "edges")
    assert refused("describe", folder, "--use", "clip") == (
        "There is no description 'clip' here: choose one of first"
    )
    assert not (folder / "descriptions").exists()


def test_features_without_images_can_not_be_described(workspace, tmp_path):
    """There is nothing to describe."""
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32))
    build(source_from(f"vectors:{tmp_path / 'rows.npy'}"), tmp_path / "rows")
    project = workspace.project(workspace.create(NewProject(str(tmp_path / "rows"), "Is it a corner?")))
    assert "has its own embeddings" in refused("describe", project.folder, "--by", "gist")


@pytest.fixture
def photos(tmp_path) -> Path:
    """A folder of images that grows."""
    for number in range(30):
        (tmp_path / "photos").mkdir(exist_ok=True)
        (tmp_path / "photos" / f"{number}.png").write_bytes(png(number))
    return tmp_path / "photos"


def test_a_pool_that_grew_is_continued_in_the_same_order(workspace, photos, model, tmp_path):
    """Twice, in portions: the description has the new images under the same ids, whenever it is continued."""
    pool = tmp_path / "grown"
    build(source_from(str(photos)), pool)
    project = workspace.project(workspace.create(NewProject(str(pool), "Is it noise?")))
    name = describe(project.folder, model)
    for start in (40, 50):
        for number in range(start, start + 10):
            (photos / f"{number}.png").write_bytes(png(number))
        build(source_from(str(photos)), pool)
    sentence = "has other items (30) than the first one (50): continue it first"
    with pytest.raises(InputError) as caught:
        workspace.use_description(project.key, name)
    assert sentence in str(caught.value)
    describe(project.folder, model)
    workspace.use_description(project.key, name)
    every = np.arange(50)
    names = Pool.open(pool).source.names(every)
    assert workspace.project(project.key).pool.source.names(every) == names


def test_images_that_vanished_are_told(workspace, photos, model, tmp_path):
    """The first description goes on without them, another one can't be begun."""
    build(source_from(str(photos)), tmp_path / "pool")
    project = workspace.project(workspace.create(NewProject(str(tmp_path / "pool"), "Is it noise?")))
    shutil.rmtree(photos)
    assert refused("describe", project.folder, "--by", model).startswith(f"There is no {photos} any more")


def test_labels_of_images_that_can_no_longer_be_read_wait(workspace, photos, tmp_path):
    """They count again with the description that has them."""
    build(source_from(str(photos)), tmp_path / "pool")
    project = workspace.project(workspace.create(NewProject(str(tmp_path / "pool"), "Is it noise?")))
    session = project.session()
    for word in ("yes", "no", "no"):
        submit(session, [answer(card_of(session), word)])
    lost = int(project.log.labels(1).items[0])
    project.pool.source.original(lost).write_bytes(b"")
    counts = []
    for name in (describe(project.folder, "edges"), ""):
        workspace.use_description(project.key, name)
        counts.append(workspace.project(project.key).live_concept(1).counts().labels)
    assert counts == [2, 3]
    assert verified(project.folder)["problems"] == []


def test_a_model_is_needed_only_for_examples(project, workspace, model, tmp_path):
    """Without it, the description can be used as long as there are none to describe."""
    own = shutil.copytree(model, tmp_path / "gone")
    name = describe(project.folder, own)
    shutil.rmtree(own)
    workspace.use_description(project.key, name)
    workspace.use_description(project.key, "")
    workspace.project(project.key).session().add_examples([png(3)])
    with pytest.raises(InputError, match=r"The example images can't be described: .*gone"):
        workspace.use_description(project.key, name)
    after = workspace.project(project.key)
    assert (after.file.description, ProjectFile.read(project.folder).description) == ("", "")
    assert not after.is_superseded
    assert after.session().in_view() is not None


def test_people_who_label_at_the_moment_lose_nothing(project, workspace, model):
    """What the former object is asked still works and is logged so; then everybody gets the new one."""
    ada, ben = (project.session(annotator=name) for name in ("ada", "ben"))
    give_answers(ada, 6)
    shown = {session.id: card_of(session) for session in (ada, ben)}
    workspace.use_description(project.key, describe(project.folder, model))
    now = workspace.project(project.key)
    assert (project.is_superseded, now.is_superseded) == (True, False)

    sent = answer(shown[ada.id], "no")
    after = submit(ada, [sent])
    assert sent["id"] in after["acked"]
    assert description_of(project.log.last_selection(ada.id)) == ""
    with pytest.raises(InputError, match="Another description of the images has just been put to use"):
        ada.add_examples([png(5)])

    again = now.session(ada.id)
    assert again is not ada
    assert submit(again, [sent])["acked"] == [sent["id"]]
    theirs = now.session(ben.id)
    assert card_of(theirs)["item"]["selection"] == shown[ben.id]["item"]["selection"]
    give_answers(again, 3)
    give_answers(theirs, 3)
    new = [r for r in now.log.selections(1) if description_of(r) == "small"]
    assert {record.session_id for record in new} == {ada.id, ben.id}
    assert verified(project.folder)["problems"] == []


def test_a_press_about_a_group_arrives_after_the_switch(project, workspace, model):
    """The other items get its answer too, although the pool in use has no groups; one undo takes all back."""
    find_groups(project, 4, "bursts")
    ada = project.session(annotator="ada")
    shown = card_of(ada)["item"]
    burst = project.duplicates.current.members(shown["id"]).tolist()
    others = [item for item in burst if item != shown["id"]]
    workspace.use_description(project.key, describe(project.folder, model))
    now = workspace.project(project.key)
    again = now.session(ada.id)
    assert now.duplicates.current is None
    sent = answer({"item": shown}, "no", group=[*others, (burst[-1] + 1) % SMALL])
    assert submit(again, [sent])["acked"] == [sent["id"]]
    assert [(one.item, one.answer) for one in now.log.answers_after(1)] == [
        (item, "no") for item in [*others, shown["id"]]
    ]
    submit(again, [{**answer({"item": shown}, "undo", undoes=sent["id"]), "selection": None}])
    assert again.concept.counts().no == 0
    give_answers(again, 3)
    assert verified(project.folder)["problems"] == []


def test_a_served_project_is_not_switched_by_the_command(project):
    """Its server would not notice; the page can do it."""
    describe(project.folder, "edges")
    assert "is already being served" in refused("describe", project.folder, "--use", "edges")
    assert ProjectFile.read(project.folder).description == ""


def test_a_restart_goes_on_with_the_description(tmp_path, model):
    """And everything that asks for the pool gets the one in use."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace, n_items=SMALL)
        name = describe(project.folder, model)
        workspace.use_description(project.key, name)
        session = begin(workspace.project(project.key), 3)
    with open_workspace(tmp_path) as workspace:
        again = workspace.project(project.key)
        assert (again.file.description, again.pool.n_features) == (name, N_FEATURES)
        give_answers(again.session(session.id), 2)
    out = tmp_path / "classifier"
    assert run("export-model", project.folder, "--out", out).exit_code == 0
    assert json.loads((out / "model.json").read_text())["features"]["dimension"] == N_FEATURES
    assert verified(project.folder)["problems"] == []


def test_a_start_by_words_belongs_to_its_description(project, workspace):
    """Its direction is not looked for among other features, even if there are as many."""
    session, vector = project.session(), np.eye(1, 384, dtype=np.float32)[0]
    words = Direction(("a fox",), (), vector)
    project.log.record_selection(
        SelectionRecord(
            session_id=session.id,
            concept_id=1,
            round=1,
            item=int(project.pool.ids[0]),
            why="words",
            strategy="words",
            seed=0,
            pool_version=1,
            items_total=len(project.pool),
            parameters={WORDS: {"texts": ["a fox"], "excluded": [], "place": 0}, DIRECTION: words.params()},
        )
    )
    name = describe(project.folder, "edges")
    found = []
    for used in ("", name, ""):
        workspace.use_description(project.key, used)
        found.append(workspace.project(project.key).live_concept(1).direction())
    assert [direction is None for direction in found] == [False, True, False]
    concept = workspace.project(project.key).live_concept(1)
    concept.set_withdrawn(concept.last_direction(), True, annotator="ada")
    for used, has_last in ((name, False), ("", True)):
        workspace.use_description(project.key, used)
        concept = workspace.project(project.key).live_concept(1)
        assert (concept.last_direction() is not None, concept.direction()) == (has_last, None)


def test_uploads_have_features_under_each_description(project, model):
    """Computed from the stored image when they are needed, and kept for verify."""
    digest = Uploads(project.folder).add(png(3), "noise", project.pool)
    pool = Pool.open(project.folder / "descriptions" / describe(project.folder, model) / "pool")
    under = Uploads(project.folder, "small")
    assert np.array_equal(under.feature(digest, pool), of_image(opened(under.image(digest)), pool.source))
    assert (project.folder / "uploads" / "small" / f"{digest}.npy").is_file()
    assert len(Uploads(project.folder).feature(digest, project.pool)) == 384
    late = under.add(png(4), "noise", pool)
    assert len(Uploads(project.folder).feature(late, project.pool)) == 384


def test_the_server_builds_in_a_process_of_its_own(project, workspace, monkeypatch):
    """Its failure is a sentence, a second press starts no second one, and stopping keeps what is built."""
    started = []
    monkeypatch.setattr(Building, "start", lambda building: started.append(building))
    assert project.descriptions.build("edges") == "edges"
    (building,) = started
    assert building._words == ["describe", str(project.folder), "--by", "edges", "--quiet", "--wait"]
    assert building._pool == project.folder / "descriptions" / "edges" / "pool"
    monkeypatch.setattr(Building, "is_running", True)
    project.descriptions.build("edges")
    assert len(started) == 1
    assert project.descriptions.being_built() == {"edges": None}
    project.descriptions.stop("edges")


def test_a_description_that_is_gone_is_told_when_the_project_is_served(tmp_path):
    """In one sentence, and the first one can be put to use again."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace, n_items=SMALL)
        workspace.use_description(project.key, describe(project.folder, "edges"))
    shutil.rmtree(project.folder / "descriptions")
    with open_workspace(tmp_path) as workspace:
        problem = workspace.project(project.key).problem()
        assert "descriptions/edges/pool" in problem
        workspace.use_description(project.key, "")
        assert workspace.project(project.key).problem() is None


def test_the_pool_is_not_half_described_while_it_grows(tmp_path, monkeypatch):
    """The first description must be complete."""
    monkeypatch.setattr(Building, "start", lambda _: None)
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(workspace.create(NewProject("digits:2000", "Is this a 7?")))
        stop = threading.Event()
        build(source_from("digits:2000"), project.pool_path, stop=stop, progress=lambda _: stop.set())
        with pytest.raises(InputError, match="still being built"):
            planned(project.folder, "edges")


def test_a_failed_switch_leaves_everything_as_it_was(project, workspace, monkeypatch):
    """The file, the project object and its sessions."""
    describe(project.folder, "edges")
    session = project.session()

    def fails(*_: object, **__: object) -> None:
        raise InputError("No threads are left")

    with monkeypatch.context() as broken:
        broken.setattr("closecall.app.projects.project.Similar", fails)
        with pytest.raises(InputError, match="No threads are left"):
            workspace.use_description(project.key, "edges")
    assert ProjectFile.read(project.folder).description == ""
    assert workspace.project(project.key) is project
    assert not project.is_superseded
    give_answers(session, 2)
