from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closecall.core.errors import InputError
from closecall.core.pool.build import build
from closecall.core.pool.manifest import FORMAT, Manifest
from closecall.core.pool.pool import Pool
from tests.fakes import FakeSource
from tests.pools import contents, small_pool
from tests.scale import examples

SOURCE = FakeSource(150, held_out=range(10))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "p"
    small_pool(path, SOURCE)
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    """A pool of one's own to damage."""
    return Path(shutil.copytree(whole, tmp_path / "p"))


def change(file: Path, how: Callable[[bytes], bytes]) -> None:
    file.write_bytes(how(file.read_bytes()))


def edit(raw: bytes, **values: object) -> bytes:
    return json.dumps({**json.loads(raw), **values}).encode()


def flip(raw: bytes) -> bytes:
    return raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:]


def test_missing_folder(tmp_path: Path) -> None:
    """A pool that is not there is no pool of nothing."""
    with pytest.raises(InputError, match=r"There is no pool at .*/nowhere: no such folder"):
        Pool.open(tmp_path / "nowhere")


def test_folder_of_something_else(tmp_path: Path) -> None:
    """A folder without a manifest is no pool, and no builder writes into it."""
    (tmp_path / "holiday.jpg").write_bytes(b"dear")
    with pytest.raises(InputError, match=r"is not a pool: it has no pool.json"):
        Pool.open(tmp_path)
    with pytest.raises(InputError, match=r"not a pool and not empty \(it has holiday.jpg\)"):
        build(SOURCE, tmp_path)
    assert contents(tmp_path).keys() == {"holiday.jpg"}


def test_file_instead_of_a_folder(tmp_path: Path) -> None:
    """A file is no pool, and stays as it is."""
    file = tmp_path / "file"
    file.write_bytes(b"mine")
    for use in (lambda: Pool.open(file), lambda: build(SOURCE, file), lambda: build(SOURCE, file / "below")):
        with pytest.raises(InputError, match=r"a pool is a folder|cannot be made"):
            use()
    assert file.read_bytes() == b"mine"


@pytest.mark.parametrize(
    "how",
    [
        lambda _: b"",
        lambda _: b"null",
        lambda _: b"[1, 2]",
        lambda _: b"{}",
        lambda _: b"\xff\x00" * 10,
        lambda _: b"[" * 100_000,
        lambda raw: raw[: len(raw) // 2],
        lambda raw: edit(raw, n_features=9),
        lambda raw: edit(raw, complete=False),
        lambda raw: edit(raw, checksum="0" * 32),
        lambda raw: edit(raw, segments=[]),
        lambda raw: edit(raw, format="x"),
        lambda raw: edit(raw, more=1),
    ],
)
def test_corrupt_manifest(path: Path, how: Callable[[bytes], bytes]) -> None:
    """A manifest that was cut, edited or overwritten is said to be damaged, by readers and builders alike."""
    change(path / "pool.json", how)
    before = contents(path)
    for use in (lambda: Pool.open(path), lambda: build(SOURCE, path)):
        with pytest.raises(InputError, match=r"p/pool.json is damaged"):
            use()
    assert contents(path) == before


@settings(max_examples=examples(150))
@given(st.data())
def test_no_changed_byte_of_the_manifest_is_believed(whole: Path, data: st.DataObject) -> None:
    """Whatever byte is changed, the manifest is refused, or says what it said before."""
    file = whole / "pool.json"
    raw = file.read_bytes()
    at, byte = data.draw(st.integers(0, len(raw) - 1)), data.draw(st.integers(0, 255))
    meant = Manifest.read(whole)
    said: Manifest | str
    try:
        file.write_bytes(raw[:at] + bytes([byte]) + raw[at + 1 :])
        said = Manifest.read(whole)
    except InputError as error:
        said = str(error)
    finally:
        file.write_bytes(raw)
    assert said == meant or (isinstance(said, str) and "pool.json is" in said)


def test_newer_format(path: Path) -> None:
    """A pool of a later Closecall asks for an upgrade."""
    change(path / "pool.json", lambda raw: edit(raw, format=FORMAT + 1))
    with pytest.raises(InputError, match=rf"format {FORMAT + 1}, .* up to {FORMAT}: upgrade"):
        Pool.open(path)


@pytest.mark.parametrize("part", ["segments/00000", "segments/00002", "held_out"])
@pytest.mark.parametrize("name", ["features.npy", "ids.npy", "truth.npy", "problems.jsonl"])
def test_missing_or_truncated_file(path: Path, part: str, name: str) -> None:
    """A file that is gone, shorter or longer is noticed at opening, and named."""
    file = path / part / name
    change(file, lambda raw: raw + b"\n")
    with pytest.raises(InputError, match=f"{part}/{name} is damaged"):
        Pool.open(path)
    if file.stat().st_size > 1:
        change(file, lambda raw: raw[:-2])
        with pytest.raises(InputError, match=f"{part}/{name} is damaged: .* bytes instead of"):
            Pool.open(path)
    file.unlink()
    before = contents(path)
    for use in (lambda: Pool.open(path), lambda: build(SOURCE, path)):
        with pytest.raises(InputError, match=f"{part}/{name} is missing"):
            use()
    assert contents(path) == before


@pytest.mark.parametrize("part", ["segments/00000", "segments/00002", "held_out"])
@pytest.mark.parametrize("name", ["features.npy", "ids.npy", "truth.npy"])
def test_flipped_bit(path: Path, part: str, name: str) -> None:
    """One wrong bit is found by a deep check, which names the file; an untouched pool passes it."""
    Pool.open(path).check(deep=True)
    change(path / part / name, flip)
    pool = Pool.open(path)
    pool.check()
    with pytest.raises(InputError, match=f"{part}/{name} is damaged: .*checksum"):
        pool.check(deep=True)


def test_damaged_header_of_features(path: Path) -> None:
    """A .npy header is never obeyed: shape and type come from the manifest."""
    good = Pool.open(path).rows([0, 1])
    change(
        path / "segments/00000/features.npy",
        lambda raw: b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 118 + raw[128:],
    )
    assert (Pool.open(path).rows([0, 1]) == good).all()


def test_damaged_report_of_problems(path: Path) -> None:
    """A report that can't be read is named; the rows can still be used."""
    pool = Pool.open(path)
    (path / "segments/00001/problems.jsonl").write_text("{nonsense\n")
    with pytest.raises(InputError, match=r"segments/00001/problems.jsonl is damaged"):
        pool.problems()
