"""Images in object storage: a server of S3's protocol on 127.0.0.1."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.pool.build import build
from closecall.core.sources import Folder, source_from
from closecall.core.sources.remote import fetching
from tests.s3_kit import SECRET, Storage, serving_storage
from tests.s3_kit import client as connect
from tests.web_kit import nobody_listening, picture, serving

N = 30
KEYS = [f"set/{'ant' if i % 2 else 'bee'}/{i} #é?.png" for i in range(N)]


@pytest.fixture(scope="module")
def storage() -> Iterator[Storage]:
    """A server, where each test has the bucket `photos`."""
    with serving_storage() as running:
        yield running


@pytest.fixture(autouse=True)
def s3(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of that server, whose bucket has images."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(fetching, "PATIENCE", 1.0)
    client = connect(storage.address, monkeypatch)
    client.create_bucket(Bucket="photos")
    for i, key in enumerate(KEYS):
        client.put_object(Bucket="photos", Key=key, Body=picture(i))
    client.put_object(Bucket="photos", Key="settings/x.png", Body=picture(0))
    yield client
    for key in client.list_objects_v2(Bucket="photos").get("Contents", []):
        client.delete_object(Bucket="photos", Key=key["Key"])
    client.delete_bucket(Bucket="photos")


def test_a_prefix_is_like_a_folder_on_disk(tmp_path: Path) -> None:
    """Same order, names, classes and features; keys with any signs; the pool can be built and opened."""
    for i, key in enumerate(KEYS):
        file = tmp_path / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(i))
    here, there = Folder(tmp_path / "set"), source_from("s3://photos/set")
    items = np.arange(N)
    assert there.names(items) == here.names(items)
    assert there.classes == here.classes == ("ant", "bee")
    assert (there.held_out() == here.held_out()).all()
    pool = build(there, tmp_path / "pool")
    assert (pool.rows_of(pool.ids) == compute(here, pool.ids)[0]).all()
    assert pool.source.encoded(2) == here.original(2).read_bytes()
    saved = b"".join(file.read_bytes() for file in (tmp_path / "pool").rglob("*") if file.is_file())
    assert SECRET.encode() not in saved


def test_a_list_may_have_keys_of_a_bucket(tmp_path: Path, s3: Any) -> None:
    """One that is missing or empty is an unreadable image."""
    s3.put_object(Bucket="photos", Key="empty.png", Body=b"")
    keys = [*KEYS, "empty.png", "missing.png"]
    (tmp_path / "list.txt").write_text("\n".join(f"s3://photos/{key}" for key in keys), "utf-8")
    source = source_from(f"urls:{tmp_path / 'list.txt'}")
    _, ids, problems = compute(source, np.arange(len(source)))
    assert len(ids) == N
    assert {problem.name: problem.reason for problem in problems} == {
        "s3://photos/empty.png": "the file is empty",
        "s3://photos/missing.png": "the storage doesn't have it (404 Not Found)",
    }


def test_each_endpoint_has_images_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the same bucket and key, also if those of another endpoint were shown before."""
    (tmp_path / "list.txt").write_text("s3://photos/set/1.png", "utf-8")
    for seed in (1, 2):
        with serving({"/photos/set/1.png": picture(seed)}) as server:
            monkeypatch.setenv("AWS_ENDPOINT_URL", server.address)
            assert source_from(f"urls:{tmp_path / 'list.txt'}").encoded(0) == picture(seed)
            asked = len(server.asked)
            assert source_from(f"urls:{tmp_path / 'list.txt'}").encoded(0) == picture(seed)
            assert len(server.asked) == asked


def test_cuts_pass_and_refusals_are_unreadable_images(tmp_path: Path, storage: Storage) -> None:
    """As across HTTP."""
    cut, refused = (f"/photos/{key}" for key in KEYS[:2])
    storage.faults = {cut: ["cut", "cut", 200], refused: [403]}
    source = source_from("s3://photos/set")
    _, ids, problems = compute(source, np.arange(N))
    storage.faults = {}
    assert len(ids) == N - 1
    assert storage.asked.count(cut) > 2
    assert [problem.reason for problem in problems] == ["the storage refuses it (403 Forbidden)"]


@pytest.mark.thorough
def test_a_vanished_bucket_is_one_sentence(tmp_path: Path, s3: Any) -> None:
    """While it is listed and while it is read; the build goes on once it is back."""
    with pytest.raises(InputError, match="there is no bucket s3://nowhere"):
        source_from("s3://nowhere/set")
    with pytest.raises(InputError, match="s3://photos/other/ has no images"):
        source_from("s3://photos/other")
    source = source_from("s3://photos/set")
    for key in s3.list_objects_v2(Bucket="photos")["Contents"]:
        s3.delete_object(Bucket="photos", Key=key["Key"])
    s3.delete_bucket(Bucket="photos")
    with pytest.raises(InputError, match="there is no bucket s3://photos"):
        build(source, tmp_path / "pool")
    s3.create_bucket(Bucket="photos")
    for i, key in enumerate(KEYS):
        s3.put_object(Bucket="photos", Key=key, Body=picture(i))
    assert build(source_from("s3://photos/set"), tmp_path / "pool").complete


def test_a_storage_that_does_not_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the words of its package."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with nobody_listening() as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with pytest.raises(InputError, match=r"^s3://photos/set/ can't be listed \(\w+\)"):
            source_from("s3://photos/set")


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(InputError, match=r'need gcsfs, .*: pip install "closecall\[remote\]" gcsfs$'):
        source_from("gs://photos/set")
