"""What is given malformed things, and what may come of it: our own errors, or none.

Each target is made once in a folder of its own, and then tried with one seed after another. A seed and a
target's name are all that a case needs.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from PIL import Image

from closecall.core.errors import InputError
from closecall.storage.errors import StorageError
from tests.fuzz.damage import as_json, damaged, spoilt
from tests.storage_kit import count_rows

OURS = (InputError, StorageError)
"""What may be raised: each is a sentence for a person."""

Target = Callable[[np.random.Generator], None]


def image(folder: Path) -> Target:
    """A file in a folder of images."""
    from closecall.core.sources.images import read_image

    file = folder / "image"

    def attempt(rng: np.random.Generator) -> None:
        file.write_bytes(malformed_image(rng))
        shown = read_image(file, int(rng.choice([32, 128, 560])))
        assert shown.mode in ("L", "RGB")
        assert max(shown.size) <= 560

    return attempt


def upload(folder: Path) -> Target:
    """An example image that somebody uploads."""
    from closecall.app.display.thumbnails import data_url
    from closecall.app.projects.uploaded_images import describing_source, read_upload
    from closecall.app.sessions.new_project import NewProject
    from closecall.app.sessions.workspace import Workspace
    from tests.projects import new_project

    workspace = Workspace(folder / "projects").__enter__()
    project = new_project(workspace)

    def attempt(rng: np.random.Generator) -> None:
        raw = malformed_image(rng)
        kept, feature = read_upload(raw, "An example image", describing_source(project.pool))
        assert np.isfinite(feature).all()
        assert data_url(Image.open(io.BytesIO(kept))).startswith("data:image/")
        NewProject("digits:20", "Is this a seven?", examples=[("it.png", raw)]).check_examples()

    return attempt


def imports(folder: Path) -> Target:
    """A file of labels or of predictions."""
    from closecall.app.exchange.importing import take_in
    from closecall.storage.imports import format_of, read_predictions
    from tests.storage_kit import make_concept
    from tests.unit.app.exchange.test_exchange import empty_database, pool

    database = empty_database()
    make_concept(database)
    made = sorted(_tables())

    def attempt(rng: np.random.Generator) -> None:
        suffix = made[int(rng.integers(len(made)))]
        raw = _tables()[suffix]
        if suffix == ".json" and rng.random() < 0.7:
            raw = as_json(spoilt(json.loads(raw), rng))
        elif suffix == ".jsonl" and rng.random() < 0.7:
            raw = b"\n".join(as_json(spoilt(json.loads(line), rng)) for line in raw.splitlines())
        else:
            raw = damaged(raw, rng)
        file = folder / f"given{suffix}"
        file.write_bytes(raw)
        before = count_rows(database)["answers"]
        if rng.random() < 0.3:
            list(read_predictions(file, format_of(file)))
            return
        new = 0
        try:
            new = take_in(database, pool(), file).new
        finally:
            assert count_rows(database)["answers"] == before + new

    return attempt


def answers(folder: Path) -> Target:
    """What a browser says, in every view; others must be able to go on (see `tests.fuzz.hostile`)."""
    from tests.fuzz.hostile import Answers

    return Answers(folder)


def backups(folder: Path) -> Target:
    """A file that is to be restored as a label database."""
    from closecall.storage import Database, restore

    whole = _backup(folder).read_bytes()

    def attempt(rng: np.random.Generator) -> None:
        file, place = folder / "given", folder / "restored.db"
        for left in folder.glob("restored.db*"):
            left.unlink()
        file.write_bytes(damaged(whole, rng))
        restore(file, place)
        with Database.open(place) as opened:
            count_rows(opened)

    return attempt


def carried_uploads(folder: Path) -> Target:
    """The same, with uploads in it, which become files."""
    from closecall.app.projects.uploads import Uploads
    from closecall.storage import Database, carried, restore

    feature = np.linspace(-1, 1, 384, dtype="<f4").tobytes()
    shown = [png for png in _pictures() if png.startswith(b"\x89PNG")]
    uploads = [carried.Upload(carried.digest_of(png), png, feature) for png in shown]
    plain = _backup(folder).read_bytes()
    whole = _backup(folder, uploads).read_bytes()

    def attempt(rng: np.random.Generator) -> None:
        file, place = folder / "given", folder / "restored.db"
        for left in (*folder.glob("restored.db*"), *(folder / "uploads").glob("*")):
            left.unlink()
        if rng.random() < 0.6:
            file.write_bytes(plain)
            _carry(file, rng)
        else:
            file.write_bytes(damaged(whole, rng))
        try:
            with Uploads(folder).taken_in(carried.read(file), "the backup") as number:
                restore(file, place)
        except OURS:
            assert not place.exists()
            assert not list((folder / "uploads").glob("*"))
            raise
        assert len(list((folder / "uploads").glob("*.png"))) == number
        with Database.open(place) as opened:
            count_rows(opened)

    return attempt


def _backup(folder: Path, uploads: Iterable[Any] = ()) -> Path:
    from closecall.storage import Database, backup
    from tests.storage_kit import make_concept, sit_down

    with Database.open(folder / f"whole{len(list(folder.iterdir()))}.db", create=True) as database:
        ada = sit_down(database, make_concept(database))
        for item in range(40):
            ada.says("yes", item)
    return backup(database.place, folder / "copy", overwrite=True, uploads=uploads)


def _carry(file: Path, rng: np.random.Generator) -> None:
    """Uploads in a backup that nobody uploaded, under digests that are right or wrong."""
    from closecall.storage.carried import _MADE_BY, digest_of

    made_by = _MADE_BY if rng.random() < 0.9 else damaged(_MADE_BY.encode(), rng).decode("latin-1")
    with contextlib.suppress(sqlite3.Error), closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(made_by)
        for _ in range(int(rng.integers(1, 4))):
            image = malformed_image(rng) if rng.random() < 0.5 else _pictures()[int(rng.integers(3))]
            feature = rng.integers(0, 256, int(rng.integers(0, 99)), np.uint8).tobytes()
            if rng.random() < 0.5:
                feature = np.ones(384, dtype="<f4").tobytes()
            row: list[Any] = [digest_of(image), image, feature, digest_of(feature)]
            if rng.random() < 0.3:
                row[int(rng.integers(4))] = ["../../../../tmp/closecall-fuzz", 7, b"", 2**62][
                    int(rng.integers(4))
                ]
            connection.execute("INSERT INTO carried_uploads VALUES (?, ?, ?, ?)", row)


def projects(folder: Path) -> Target:
    """The file that a project's folder is known by, and the manifest of its pool."""
    from closecall.app.projects.config import ProjectFile
    from closecall.core.pool.pool import Pool
    from tests.projects import digits_pool

    written = folder / "project"
    written.mkdir()
    ProjectFile("pool", "digits:600", str(folder), owners=["ada"], overlap=2).write(written)
    described = (written / "project.json").read_bytes()
    pool = Path(shutil.copytree(digits_pool(), folder / "pool"))
    manifest = (pool / "pool.json").read_bytes()

    def attempt(rng: np.random.Generator) -> None:
        is_pool = rng.random() < 0.5
        whole = manifest if is_pool else described
        raw = as_json(spoilt(json.loads(whole), rng)) if rng.random() < 0.6 else damaged(whole, rng)
        if is_pool:
            (pool / "pool.json").write_bytes(raw)
            opened = Pool.open(pool)
            opened.source.name(0)
        else:
            (written / "project.json").write_bytes(raw)
            read = ProjectFile.read(written)
            read.pool_path(written)
            read.labels(written)

    return attempt


TARGETS: dict[str, Callable[[Path], Target]] = {
    "image": image,
    "upload": upload,
    "import": imports,
    "answers": answers,
    "backup": backups,
    "carried": carried_uploads,
    "project": projects,
}


def malformed_image(rng: np.random.Generator) -> bytes:
    """A picture of any kind, damaged; or one that says of itself that it is huge."""
    if rng.random() < 0.05:
        return bomb(int(rng.integers(1, 2**16)), int(rng.integers(1, 2**16)), int(rng.integers(0, 200_000)))
    kinds = _pictures()
    return damaged(kinds[int(rng.integers(len(kinds)))], rng)


def bomb(width: int, height: int, n_bytes: int) -> bytes:
    """A PNG of these sizes whose data are `n_bytes` zeros, packed to next to nothing."""

    def chunk(name: bytes, data: bytes) -> bytes:
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(n_bytes), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@cache
def _pictures() -> list[bytes]:
    rng = np.random.default_rng(5)
    colours = Image.fromarray(rng.integers(0, 255, (37, 53, 3), dtype=np.uint8))
    deep = Image.fromarray(rng.integers(0, 2**16, (20, 30), dtype=np.uint16))
    options: list[tuple[Image.Image, str, dict[str, Any]]] = [
        (colours, "PNG", {}),
        (colours.convert("P"), "PNG", {"transparency": 3}),
        (deep, "PNG", {}),
        (colours, "JPEG", {"exif": _turned()}),
        (colours, "JPEG", {"progressive": True}),
        (colours.convert("CMYK"), "JPEG", {}),
        (colours, "GIF", {}),
        (colours, "GIF", {"save_all": True, "append_images": [colours.rotate(90)]}),
        (colours, "BMP", {}),
        (colours, "PPM", {}),
        (colours, "WEBP", {}),
        (colours, "WEBP", {"lossless": True}),
        (colours, "TIFF", {}),
        (colours, "TIFF", {"compression": "tiff_lzw"}),
        (colours, "TIFF", {"compression": "tiff_deflate"}),
        (colours, "JPEG2000", {}),
        (colours, "AVIF", {}),
    ]
    made = []
    for picture, form, how in options:
        if form not in Image.SAVE:
            Image.init()
        if form in Image.SAVE:
            buffer = io.BytesIO()
            picture.save(buffer, form, **how)
            made.append(buffer.getvalue())
    return made


def _turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


@cache
def _tables() -> dict[str, bytes]:
    rows = [{"item": item, "name": f"{item}.png", "label": "yes", "annotator": "ada"} for item in range(6)]
    parquet = io.BytesIO()
    with closing(pyarrow.BufferOutputStream()):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), parquet)
    task = {"data": {"item": 1}, "annotations": [{"result": [{"value": {"choices": ["yes"]}}]}]}
    return {
        ".csv": b"item,name,label,annotator\r\n" + b"".join(b'%d,"",yes,ada\r\n' % item for item in range(6)),
        ".jsonl": b"\n".join(json.dumps(row).encode() for row in rows),
        ".json": json.dumps([{**task, "data": {"item": item}} for item in range(6)]).encode(),
        ".parquet": parquet.getvalue(),
    }
