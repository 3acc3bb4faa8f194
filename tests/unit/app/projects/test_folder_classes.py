from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from closecall.app.projects.folder_classes import FolderClasses, chosen_source
from closecall.core.sources import source_from


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def picture() -> bytes:
    """A small image, in PNG."""
    held = io.BytesIO()
    Image.effect_noise((9, 9), 50).save(held, "png")
    return held.getvalue()


def pack(file: Path, members: dict[str, bytes]) -> Path:
    """A tar with these members."""
    with tarfile.open(file, "w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return file


def test_folders_in_a_tar_are_classes_if_the_question_names_one(tmp_path: Path) -> None:
    """As those of a folder of images."""
    members = {f"{kind}/{i}.png": picture() for kind in ("ant", "bee") for i in range(10)}
    given = source_from(f"tar:{pack(tmp_path / 't.tar', members)}")
    assert FolderClasses.of(given).names == ("ant", "bee")
    source, uses = chosen_source(given, "Is it a bee?", None, None)
    assert (source.classes, uses) == (("ant", "bee"), True)
    source, uses = chosen_source(given, "Is it red?", None, None)
    assert (source.classes, uses) == ((), False)


def test_classes_that_the_data_tell_are_not_asked_about(tmp_path: Path) -> None:
    """Those of a WebDataset and of a table hold whatever the question is."""
    members = {f"a/{i}.png": picture() for i in range(10)} | {
        f"a/{i}.cls": b"01"[i % 2 :][:1] for i in range(10)
    }
    rows = {"image": [picture() for _ in range(10)], "label": list("01" * 5)}
    pyarrow.parquet.write_table(pyarrow.table(rows), tmp_path / "t.parquet")
    for word in (f"tar:{pack(tmp_path / 't.tar', members)}", f"images:{tmp_path / 't.parquet'}"):
        source = source_from(word)
        assert FolderClasses.of(source).names == ()
        assert chosen_source(source, "Is it red?", None, None)[0].classes == ("0", "1")
