"""Uploads travel inside a backup: searches for what they show can be made again elsewhere."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from closecall.app.api.cards import card_of, submit
from closecall.app.projects.uploads import Uploads
from closecall.storage import Database, LabelLog, StorageError, backup, carried, migrate, restore, transfer
from closecall.storage.address import with_schema
from closecall.storage.carried import Upload, digest_of
from closecall.storage.place import LabelFile
from tests.projects import new_project, open_workspace
from tests.storage_kit import Annotator
from tests.unit.app.cli.test_main import refused, run
from tests.unit.app.sessions.similar.test_similar import of_class, png, sent, truly
from tests.unit.storage.test_copies import items, leftovers, refuses

FEATURE = np.arange(384, dtype="<f4").tobytes()


def noise(size: int = 20, form: str = "PNG") -> bytes:
    kept = io.BytesIO()
    Image.fromarray(np.random.default_rng(size).integers(0, 255, (size, size), dtype=np.uint8)).save(
        kept, form
    )
    return kept.getvalue()


def upload(image: bytes, feature: bytes = FEATURE) -> Upload:
    return Upload(digest_of(image), image, feature)


@pytest.fixture(scope="module")
def searched_once(tmp_path_factory) -> Path:
    """A project in which two uploads were looked for, and what was found answered."""
    with open_workspace(tmp_path_factory.mktemp("searched")) as workspace:
        project = new_project(workspace)
        similar = project.similar_to(project.session())
        for name in ("7", "2"):
            similar.upload(sent(png(project, of_class(project, name)[0])))
            submit(similar, truly(similar, card_of(similar), 3))
    return project.folder


@pytest.fixture
def searched(searched_once, tmp_path) -> Path:
    """A copy of it."""
    return shutil.copytree(searched_once, tmp_path / "here" / searched_once.name)


@pytest.fixture
def elsewhere(tmp_path) -> Path:
    """A project over the same items, without labels."""
    with open_workspace(tmp_path / "there") as workspace:
        return new_project(workspace).folder


@pytest.fixture(scope="module")
def copied_once(searched_once, tmp_path_factory) -> Path:
    """The backup of the project that searched."""
    made = tmp_path_factory.mktemp("backup") / "labels.backup"
    said = run("backup", searched_once, made)
    assert said.output.splitlines()[1:] == ["Uploaded images that go with them: 2"]
    return made


@pytest.fixture
def copy(copied_once, tmp_path) -> Path:
    """A copy of it, which may be damaged."""
    return Path(shutil.copy(copied_once, tmp_path))


def kept(project: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (project / "uploads").glob("*")}


def verified(project: Path) -> dict:
    return json.loads(run("verify", project, "--json").output)


def test_searches_are_made_again_where_the_backup_is_restored(searched, elsewhere, copy):
    """With the uploads bit by bit, and a label database that is none the larger for them, but for a page."""
    said = run("restore", copy, elsewhere, "--force")
    assert said.output.splitlines()[1:] == ["Uploaded images that came with them: 2"]
    assert kept(elsewhere) == kept(searched)
    assert len(kept(elsewhere)) == 4
    found = verified(elsewhere)
    assert (found["problems"], found["choices"]) == ([], verified(searched)["choices"])
    with closing(sqlite3.connect(elsewhere / "labels.db")) as database:
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    assert "answers" in tables
    assert "carried_uploads" not in tables
    plain = backup(searched / "labels.db", copy.with_name("without"))
    size = (elsewhere / "labels.db").stat().st_size
    assert size <= plain.stat().st_size + 4096 < copy.stat().st_size


def test_without_its_uploads_a_search_is_not_made_again(searched, elsewhere, tmp_path):
    """A backup from before they were carried is restored as ever; `verify` says what is missing."""
    old = backup(searched / "labels.db", tmp_path / "old.backup")
    said = run("restore", old, elsewhere, "--force")
    assert (said.exit_code, len(said.output.splitlines())) == (0, 1)
    assert any("isn't kept" in problem for problem in verified(elsewhere)["problems"])
    assert not (elsewhere / "uploads").exists()


def test_a_backup_of_an_older_version_is_restored(elsewhere, tmp_path):
    """Such as those that are made before a migration; opened for labeling, it is brought up to date."""
    old = tmp_path / "old.backup"
    with transfer._connected(LabelFile(old), read_only=False) as connection:
        migrate.upgrade(connection, "0004")
        connection.exec_driver_sql(
            "INSERT INTO concepts (id, name, question, guideline, c, created) "
            "VALUES (1, 'old', 'Is it?', '', 1, 0)"
        )
    before = old.read_bytes()
    said = run("restore", old, elsewhere, "--force")
    assert said.exit_code == 0, said.output
    with open_workspace(elsewhere.parent) as workspace:
        assert [its.name for its in workspace.project(elsewhere.name).concepts()] == ["old"]
    assert old.read_bytes() == before
    assert not list(elsewhere.glob(".restoring-*"))
    with closing(sqlite3.connect(old)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '0000'")
    assert "of no known version" in refused("restore", old, elsewhere, "--force")


def test_uploads_move_with_labels_to_a_server_and_back(server, searched, elsewhere, copy, tmp_path):
    """Whichever database the labels are in, the backup of it has the uploads of the project's folder."""
    address = with_schema(server.address, f"carried-{tmp_path.name}")
    assert run("restore", copy, elsewhere, "--database", address).exit_code == 0
    assert verified(elsewhere)["problems"] == []
    assert run("backup", elsewhere, tmp_path / "later").exit_code == 0
    (searched / "uploads").rename(tmp_path / "put-away")
    assert run("restore", tmp_path / "later", searched, "--force").exit_code == 0
    assert verified(searched)["problems"] == []
    assert kept(searched) == kept(elsewhere)


WRONG = {
    "path": ("digest = '../../../../' || substr(digest, 13)", "32 hexadecimal digits"),
    "digest": ("digest = replace(digest, substr(digest, 1, 1), 'z')", "32 hexadecimal digits"),
    "binary": ("digest = CAST(digest AS BLOB)", "32 hexadecimal digits"),
    "other": ("image = CAST(image || 'x' AS BLOB)", "the digest of its image is another"),
    "text": ("image = 'a picture'", "its image must be at most"),
    "large": (f"image = zeroblob({carried.MAX_BYTES + 1})", "its image must be at most 33,554,432 bytes"),
    "feature": ("feature = zeroblob(9)", "the digest of its features is another"),
    "nothing": ("feature_digest = x''", "the digest of its features is another"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_as_its_digest_says_is_refused(elsewhere, copy, wrong):
    """In one sentence that names the backup; neither labels nor uploads change, not even by its good ones."""
    statement, sentence = WRONG[wrong]
    with closing(sqlite3.connect(copy)) as database, database:
        last = "digest = (SELECT MAX(digest) FROM carried_uploads)"
        assert database.execute(f"UPDATE carried_uploads SET {statement} WHERE {last}").rowcount == 1
    before = (elsewhere / "labels.db").read_bytes()
    said = refused("restore", copy, elsewhere, "--force")
    assert sentence in said
    assert str(copy) in said
    assert (elsewhere / "labels.db").read_bytes() == before
    assert not (elsewhere / "uploads").exists()


@pytest.mark.parametrize(
    ("image", "feature", "sentence"),
    [
        (b"Dear Sir or Madam", FEATURE, "it is not an image"),
        (noise()[:-30], FEATURE, "damaged or incomplete"),
        (noise(form="JPEG"), FEATURE, "must be a PNG of at most 256 pixels a side, got JPEG of 20 × 20"),
        (noise(257), FEATURE, "got PNG of 257 × 257"),
        (noise(), FEATURE[:-1], "1,535 bytes are not features"),
        (noise(), np.full(4, np.nan, "<f4").tobytes(), "must be finite"),
    ],
    ids=["text", "cut", "jpeg", "wide", "odd", "nan"],
)
def test_what_is_no_upload_is_refused(searched, elsewhere, tmp_path, image, feature, sentence):
    """However right its digests are."""
    copy = backup(
        searched / "labels.db", tmp_path / "bad.backup", uploads=[upload(image, feature), upload(noise(9))]
    )
    said = refused("restore", copy, elsewhere, "--force")
    assert sentence in said
    assert str(copy) in said
    assert not (elsewhere / "uploads").exists()


@pytest.mark.parametrize(
    "made", ["VIEW carried_uploads AS SELECT 1", "TABLE carried_uploads (digest, image, feature)"]
)
def test_another_form_is_refused_unread(searched, elsewhere, tmp_path, made):
    """A view could compute without end."""
    copy = backup(searched / "labels.db", tmp_path / "other.backup")
    with closing(sqlite3.connect(copy)) as database:
        database.execute(f"CREATE {made}")
    assert "in a form that this version does not know" in refused("restore", copy, elsewhere, "--force")


def test_uploads_are_taken_away_again_where_labels_are_not_restored(elsewhere, copy):
    """Those that were there before stay."""
    own = Uploads(elsewhere)
    with own.taken_in([upload(noise())], "elsewhere"):
        pass
    before = kept(elsewhere)
    assert "--force" in refused("restore", copy, elsewhere)
    assert kept(elsewhere) == before
    assert len(before) == 2


def test_what_is_damaged_is_mended_and_what_is_whole_stays(searched, elsewhere, copy):
    """An upload that is here already is not written again, unless it is not what its digest says."""
    assert run("restore", copy, elsewhere, "--force").exit_code == 0
    whole = kept(elsewhere)
    first, second = sorted({name.partition(".")[0] for name in whole})
    (elsewhere / "uploads" / f"{first}.png").write_bytes(b"rotten")
    (elsewhere / "uploads" / f"{second}.npy").unlink()
    assert run("restore", copy, elsewhere, "--force").exit_code == 0
    assert kept(elsewhere) == whole
    other = elsewhere / "uploads" / f"{first}.npy"
    np.save(other, np.ones(384, dtype=np.float32))
    here = other.read_bytes()
    assert run("restore", copy, elsewhere, "--force").exit_code == 0
    assert other.read_bytes() == here


def test_a_damaged_upload_is_left_out_and_told(searched, tmp_path):
    """A backup of the labels and the others is better than none."""
    digest = sorted(path.stem for path in (searched / "uploads").glob("*.png"))[0]
    (searched / "uploads" / f"{digest}.png").write_bytes(b"rotten")
    (searched / "uploads" / "holiday.png").write_bytes(noise())
    said = run("backup", searched, tmp_path / "copy")
    assert (said.exit_code, said.stdout.splitlines()[1:]) == (0, ["Uploaded images that go with them: 1"])
    assert said.stderr == f"Warning: the upload {digest} is left out, because it is damaged\n"
    (only,) = carried.read(tmp_path / "copy")
    assert only.digest != digest


def test_uploads_are_asked_for_after_the_labels(labels, tmp_path):
    """What the copied log refers to is kept by then; and a later backup carries no older one's."""

    def later():
        with Database.open(labels) as database:
            Annotator(LabelLog(database), LabelLog(database).sessions()[0]).says("no", 6)
        yield upload(noise())

    copy = backup(labels, tmp_path / "copy", uploads=later())
    assert items(copy) == [5]
    assert list(carried.read(copy)) == [upload(noise())]
    assert items(labels) == [5, 6]
    assert list(carried.read(backup(copy, tmp_path / "again"))) == []


def test_what_cannot_be_read_back_is_not_written(labels, tmp_path, monkeypatch):
    """A backup whose uploads `restore` would refuse is not made; nor one whose uploads can't be read."""
    monkeypatch.setattr(carried, "MAX_BYTES", 2000)
    large = upload(noise(60))

    def unreadable():
        yield upload(noise())
        raise StorageError("the disk is worn", "other")

    for one, sentence in (
        (large, "its image must be at most 2,000 bytes"),
        (Upload("0" * 32, b"", b""), "the digest of its image is another"),
    ):
        with pytest.raises(StorageError) as caught:
            backup(labels, tmp_path / "copy", uploads=[upload(noise()), one])
        assert caught.value.kind == "invalid"
        assert str(caught.value) == f"the upload {one.digest} can't be backed up: {sentence}"
    refuses("other", backup, labels, tmp_path / "copy", uploads=unreadable())
    assert not (tmp_path / "copy").exists()
    assert leftovers(tmp_path) == []


def test_many_uploads_are_carried_one_by_one(labels, tmp_path):
    """Neither making nor reading a backup holds more than one of them."""
    number, size, alive = 40, 100_000, []

    class Content(bytes):
        def __del__(self):
            alive.remove(id(self))

    def uploads():
        for seed in range(number):
            content = Content(np.random.default_rng(seed).bytes(size))
            alive.append(id(content))
            assert len(alive) <= 3
            yield Upload(digest_of(content), content, FEATURE)
            del content

    copy = backup(labels, tmp_path / "copy", uploads=uploads())
    assert sum(len(one.image) for one in carried.read(copy)) == number * size
    assert restore(copy, tmp_path / "new.db") is None
    assert (tmp_path / "new.db").stat().st_size < size * 3
