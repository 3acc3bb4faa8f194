"""Images across a network: what is read, what is refused, and what may be written down."""

from __future__ import annotations

import base64
import json
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import AddressList, Folder, RemoteFolder, Source, open_source, source_from
from closecall.core.sources.base import UnshownItemError
from closecall.core.sources.remote import fetching, web
from closecall.core.sources.remote.failures import TemporaryError
from tests.web_kit import Server, nobody_listening, picture, serving

N = 40
PATHS = [f"/set/{'ant' if i % 2 else 'bee'}/{i} é.png" for i in range(N)]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(fetching, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(fetching, "PATIENCE", 1.0)
    monkeypatch.setattr(fetching, "PATIENCE_SHOWN", 0.2)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving({path: picture(i) for i, path in enumerate(PATHS)}) as running:
        yield running


def listed(root: Path, server: Server, paths: list[str] = PATHS, suffix: str = "") -> Path:
    """A list of addresses in a text file."""
    file = root / "list.txt"
    file.write_text("\n".join(server.address + path + suffix for path in paths), "utf-8")
    return file


def on_disk(root: Path, first: int = 0) -> Folder:
    """The same images in a folder, or those from a later seed on."""
    for i, path in enumerate(PATHS):
        file = root / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(first + i))
    return Folder(root / "set")


def features(source: Source) -> dict[str, np.ndarray]:
    """Features by the file's name."""
    X, ids, _ = compute(source, np.arange(len(source)))
    return {source.name(item).rpartition("/")[2]: x for item, x in zip(ids.tolist(), X, strict=True)}


def written(folder: Path) -> bytes:
    """All that is in the files of a folder, and their names."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return b"\n".join(os.fsencode(file) + file.read_bytes() for file in files)


def test_a_list_has_the_features_of_the_files(tmp_path: Path, server: Server) -> None:
    """To the last bit, in a text file, CSV, JSON Lines and Parquet."""
    expected = features(on_disk(tmp_path))
    addresses = [server.address + path for path in PATHS]
    table = pa.table({"id": range(N), "URL": addresses, "label": [path.split("/")[2] for path in PATHS]})
    pa.csv.write_csv(table, tmp_path / "list.csv")
    pa.parquet.write_table(table, tmp_path / "list.parquet")
    (tmp_path / "list.jsonl").write_text("\n".join(json.dumps({"there": one}) for one in addresses))
    words = ["list.csv", "list.csv,URL,label", "list.parquet", "list.jsonl"]
    sources = [source_from(f"urls:{tmp_path / word}") for word in words]
    sources.append(source_from(f"urls:{listed(tmp_path, server)}"))
    for source in sources:
        found = features(source)
        assert found.keys() == expected.keys()
        assert all((found[name] == expected[name]).all() for name in expected)
    assert [source.classes for source in sources] == [("ant", "bee")] * 3 + [()] * 2
    item = sources[0].names(np.arange(N)).index(addresses[1])
    assert sources[0].truth(np.array([item])) == [0]


def test_a_folder_on_a_server_is_like_one_on_disk(tmp_path: Path, server: Server) -> None:
    """Same order, names, classes and held-out items; nothing outside of it is read."""
    server.files |= {"/other/x.png": picture(99), "/set/.hidden.png": picture(98), "/set/a.txt": b"x"}
    there, here = source_from(f"{server.address}/set"), on_disk(tmp_path)
    items = np.arange(N)
    assert there.names(items) == here.names(items)
    assert there.classes == here.classes == ("ant", "bee")
    assert (there.truth(items) == here.truth(items)).all()
    assert (there.held_out() == here.held_out()).all()
    assert (compute(there, items)[0] == compute(here, items)[0]).all()
    assert there.encoded(3) == here.original(3).read_bytes()
    assert all(path.startswith("/set/") for path in server.asked)
    assert source_from(f"{server.address}/set", use_classes=False).classes == ()


def test_names_on_a_server_need_not_be_utf_8(tmp_path: Path, server: Server) -> None:
    """As in archives from the time of Latin-1; also after the pool was opened again."""
    names = [os.fsdecode(name) for name in (b"\xe9t\xe9.png", b"caf\xe9/100% \xc3.png", "été.png".encode())]
    server.files = {f"/set/{name}": picture(i) for i, name in enumerate(names)}
    pool = build(source_from(f"{server.address}/set"), tmp_path / "pool")
    assert pool.problems() == []
    opened = Pool.open(tmp_path / "pool").source
    assert {opened.encoded(item) for item in range(3)} == set(server.files.values())
    assert set(opened.names(np.arange(3))) == {"\ufffdt\ufffd.png", "caf\ufffd/100% \ufffd.png", "été.png"}


def test_a_build_reads_several_images_at_once(tmp_path: Path, server: Server) -> None:
    """Also if one thread describes; each image is asked for once."""
    server.together = threading.Barrier(8, timeout=60)
    pool = build(AddressList(listed(tmp_path, server)), tmp_path / "pool", threads=1)
    assert len(pool) == N
    assert not server.together.broken
    assert len(server.asked) == N


def test_cuts_pass_and_refusals_are_unreadable_images(tmp_path: Path, server: Server) -> None:
    """With one sentence each, and the pool has all others."""
    faults = {3: ["cut", "cut", 200], 4: [503, 200], 5: [403], 6: [404], 7: [302], 8: [401], 9: [500]}
    server.faults = {PATHS[i]: list(fault) for i, fault in faults.items()}
    server.files[PATHS[10]] = b"not an image"
    server.files[PATHS[11]] = b""
    server.delay = 0.02  # so that others are read meanwhile
    file = listed(tmp_path, server)
    file.write_text(file.read_text("utf-8") + "\nfile:///etc/passwd\nnothing\n", "utf-8")
    fetching.PATIENCE = 2.0
    pool = build(AddressList(file), tmp_path / "pool", threads=2)
    reasons = {problem.name.rpartition("/")[2]: problem.reason for problem in pool.problems()}
    assert len(pool) == N - 7
    no_address = "it has no address that begins with http://, https://, s3://, gs:// or az://"
    assert reasons == {
        "5 é.png": "the server refuses it (403 Forbidden)",
        "6 é.png": "the server doesn't have it (404 Not Found)",
        "7 é.png": "the server refuses it (302 Found)",
        "8 é.png": "the server refuses it (401 Unauthorized)",
        "9 é.png": "it can't be read, though other images can: the server answers 500 Internal Server Error",
        "10 é.png": "it is not an image of a supported format",
        "11 é.png": "the file is empty",
        f"row {N + 1}": no_address,
        f"row {N + 2}": no_address,
    }


def test_an_unreachable_server_stops_the_build_which_goes_on_later(tmp_path: Path, server: Server) -> None:
    """With one sentence; the pool is then the same as without the interruption."""
    folder = f"{server.address}/set"
    whole = build(RemoteFolder(folder), tmp_path / "whole")
    source = RemoteFolder(folder)
    (tmp_path / "cache").rename(tmp_path / "former")
    server.faults = {path: [503] for path in PATHS}
    with pytest.raises(InputError, match=r"^http://127\S+ can't be reached \(the server answers 503 .*: try"):
        build(source, tmp_path / "pool")
    server.faults = {}
    again = build(RemoteFolder(folder), tmp_path / "pool")
    assert again.complete
    assert (again.ids == whole.ids).all()
    assert (again.rows_of(again.ids) == whole.rows_of(whole.ids)).all()
    assert again.problems() == []


def test_a_server_that_is_gone_is_one_sentence(tmp_path: Path, server: Server) -> None:
    """For images that are shown, too; the saved pool still opens."""
    build(AddressList(listed(tmp_path, server)), tmp_path / "pool")
    (tmp_path / "cache").rename(tmp_path / "former")
    server.shutdown()
    server.server_close()
    source = Pool.open(tmp_path / "pool").source
    with nobody_listening(server.server_port):
        with pytest.raises(InputError, match=r"can't be reached \(no connection can be made\)"):
            source.image(0, 32)
        with pytest.raises(InputError, match=r"can't be listed \(no connection can be made\)"):
            RemoteFolder(f"{server.address}/set")


def test_a_server_that_does_not_answer_delays_one_image_only(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other images fail at once for a while, and while one of them tries again; then all are there again."""
    source = AddressList(listed(tmp_path, server))
    monkeypatch.setattr(fetching, "PATIENCE_SHOWN", 0.0)
    tried: list[int] = []

    def reason(item: int) -> str:
        with pytest.raises(UnshownItemError) as error:
            source.image(item, 32)
        assert server.address not in error.value.reason
        return error.value.reason

    def silent(*_: object) -> None:
        tried.append(len(tried))
        if len(tried) == 2:  # while the second image tries again, a third one does not wait for it
            monkeypatch.setattr(fetching, "GIVEN_UP_SECONDS", 1e9)
            assert reason(3) == gone
        raise TemporaryError("it doesn't answer", is_silent=True)

    gone = "its server can't be reached (it doesn't answer)"
    with monkeypatch.context() as dead:
        dead.setattr(web.Web, "read", silent)
        assert {reason(item) for item in range(N)} == {gone}
        assert tried == [0]
        monkeypatch.setattr(fetching, "GIVEN_UP_SECONDS", 0.0)
        assert reason(2) == gone
        assert tried == [0, 1]
    assert reason(2) == gone
    assert server.asked == []
    monkeypatch.setattr(fetching, "GIVEN_UP_SECONDS", 0.0)
    assert source.image(2, 32).size
    monkeypatch.setattr(fetching, "GIVEN_UP_SECONDS", 1e9)
    assert source.image(3, 32).size


def test_an_image_that_the_server_refuses_does_not_delay_others(tmp_path: Path, server: Server) -> None:
    """Each has its own reason, also if the server failed at it, and the others are shown."""
    faults = {PATHS[0]: 403, PATHS[1]: 404, PATHS[2]: 500, PATHS[3]: "cut"}
    server.faults = {path: [fault] for path, fault in faults.items()}
    server.files[PATHS[4]] = picture(4)[:200]
    source = AddressList(listed(tmp_path, server))
    reasons = {}
    for item in range(N):
        try:
            source.image(item, 32)
        except UnshownItemError as error:
            reasons[int(source.name(item).rpartition("/")[2].split()[0])] = error.reason
    assert reasons.pop(4).startswith("the image is damaged or incomplete")
    assert reasons == {
        0: "the server refuses it (403 Forbidden)",
        1: "the server doesn't have it (404 Not Found)",
        2: "the server answers 500 Internal Server Error",
        3: "the connection was cut",
    }


def test_many_refusals_in_a_row_stop_the_build(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Because the bucket is gone, or access has expired."""
    monkeypatch.setattr(fetching, "MOST_REFUSED", 10)
    server.faults = {path: [403] for path in PATHS}
    with pytest.raises(InputError, match=r"none of the last 10 images of .* \(the last one: .*403 Forbidden"):
        build(AddressList(listed(tmp_path, server)), tmp_path / "pool")
    server.faults = {}
    assert len(build(AddressList(listed(tmp_path, server)), tmp_path / "pool")) == N


def test_an_unreachable_server_with_few_images_stops_nothing(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long lists always have some."""
    monkeypatch.setattr("closecall.core.sources.remote.address_list._MINOR_SHARE", 0.05)
    with nobody_listening() as gone:
        file = listed(tmp_path, server)
        file.write_text(f"{file.read_text('utf-8')}\n{gone}/x.png\n", "utf-8")
        pool = build(AddressList(file), tmp_path / "pool")
    assert len(pool) == N
    (problem,) = pool.problems()
    assert problem.reason == f"{gone} can't be reached: no connection can be made"


def test_redirects_stay_in_the_folder(tmp_path: Path, server: Server) -> None:
    """Another host, another folder, files of this machine and circles are not read."""
    with serving({"/set/x.png": picture(1)}) as other:
        server.faults = {
            PATHS[1]: [PATHS[3].replace(" ", "%20").replace("é", "%C3%A9")],
            PATHS[2]: [f"{other.address}/set/x.png?secret"],
            PATHS[4]: ["file:///etc/passwd"],
            PATHS[5]: ["/other/x.png"],
            PATHS[6]: [PATHS[6].replace(" ", "%20").replace("é", "%C3%A9")],
            PATHS[8]: ["http://169.254.169.254/latest"],
        }
        server.files["/other/x.png"] = picture(2)
        source = RemoteFolder(f"{server.address}/set")
        names = source.names(np.arange(N))
        place = {int(name.split("/")[1].split()[0]): item for item, name in enumerate(names)}
        _, problems = source.grey(np.arange(N))
        reasons = {problem.item: problem.reason for problem in problems}
        outside = f"outside of {server.address}/set/"
        assert reasons == {
            place[2]: f"the server redirects to {other.address}, {outside}",
            place[4]: f"the server redirects elsewhere, {outside}",
            place[5]: f"the server redirects to {server.address}, {outside}",
            place[6]: "the server redirects more than 5 times",
            place[8]: f"the server redirects to http://169.254.169.254, {outside}",
        }
        assert other.asked == []
        assert "/other/x.png" not in server.asked
        assert (source.encoded(place[1])) == picture(3)


def test_a_name_must_not_lead_to_a_link_local_address(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the list has its number: here 127.0.0.1 is taken for one."""
    monkeypatch.setattr(web, "_METADATA", frozenset([web.ipaddress.ip_address("127.0.0.1")]))
    file = listed(tmp_path, server, PATHS[:2])
    file.write_text(file.read_text("utf-8").replace("127.0.0.1", "localhost", 1), "utf-8")
    _, (problem,) = AddressList(file).grey(np.arange(2))
    assert problem.reason == "its host leads to 127.0.0.1, which is read only if the list names it"
    assert len(server.asked) == 1


def test_too_large_an_answer_is_not_read(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its length is enough."""
    server.files[PATHS[0]] = bytes(10_000)
    monkeypatch.setattr(web.Web.read, "__defaults__", (9_000,))
    _, (problem,) = AddressList(listed(tmp_path, server)).grey(np.arange(N))
    assert problem.reason == "it has 10,000 bytes, but at most 9,000 are read"


SECRET = "s3cr3t"


def test_credentials_are_used_and_never_written_down(
    tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in the pool, messages or logs; a list that is signed again is the same list."""
    caplog.set_level(logging.DEBUG)
    file = listed(tmp_path, server, suffix=f"?v=1&X-Amz-Signature={SECRET}1")
    file.write_text(file.read_text("utf-8").replace("://", f"://me:{SECRET}@"), "utf-8")
    server.faults = {PATHS[1]: [403], PATHS[2]: [f"http://127.0.0.9/?{SECRET}"]}
    pool = build(AddressList(file), tmp_path / "pool")
    assert len(pool) == N - 2
    assert sum(SECRET in path for path in server.asked) == N
    assert all(user is not None and user.startswith("Basic ") for user in server.users)
    told = f"{pool.problems()} {pool.source.names(np.arange(N))} {caplog.text} {pool.source.spec()}"
    assert SECRET not in told
    assert SECRET.encode() not in written(tmp_path / "pool")
    assert SECRET.encode() not in written(tmp_path / "cache")

    (tmp_path / "cache").rename(tmp_path / "former")
    file.write_text(file.read_text("utf-8").replace(f"{SECRET}1", f"{SECRET}2"), "utf-8")
    source = Pool.open(tmp_path / "pool").source
    source.image(int(pool.ids[0]), 32)
    assert f"{SECRET}2" in server.asked[-1]
    file.write_text(file.read_text("utf-8").replace("v=1", "v=2"), "utf-8")
    with pytest.raises(InputError, match="has changed since the pool was made") as error:
        Pool.open(tmp_path / "pool").source.image(int(pool.ids[0]), 32)
    assert SECRET not in str(error.value)
    file.unlink()
    with pytest.raises(InputError, match="there is no file"):
        Pool.open(tmp_path / "pool").source.image(int(pool.ids[0]), 32)


@pytest.mark.parametrize(
    "word",
    [
        f"https://me:{SECRET}@x.org/set",
        f"https://x.org/set?{SECRET}",
        f"enlarged:many:https://me:{SECRET}@x.org/set",
        f"nothing:s3://me:{SECRET}@bucket/set",
    ],
)
def test_a_word_with_credentials_is_refused_without_them(word: str) -> None:
    """Words are stored, in a project's file for example."""
    with pytest.raises(InputError, match="must not have a user, password or query") as error:
        source_from(word)
    assert SECRET not in str(error.value)


def test_shown_images_are_kept(tmp_path: Path, server: Server) -> None:
    """On disk, for another program too, and within a bound."""
    source = AddressList(listed(tmp_path, server))
    shown = [source.image(item, 64).tobytes() for item in range(N)]
    server.asked.clear()
    other = AddressList(listed(tmp_path, server))
    assert [other.image(item, 64).tobytes() for item in range(N)] == shown
    assert server.asked == []


def test_a_build_reads_the_present_images(tmp_path: Path, server: Server) -> None:
    """Not those that were shown or built from before. The page then shows the present ones, too."""
    file = listed(tmp_path, server)
    build(AddressList(file), tmp_path / "former")
    assert AddressList(file).encoded(0) == build(AddressList(file), tmp_path / "former").source.encoded(0)
    server.files = {path: picture(100 + i) for i, path in enumerate(PATHS)}
    expected = features(on_disk(tmp_path, first=100))
    pool = build(AddressList(file), tmp_path / "pool")
    names = [name.rpartition("/")[2] for name in pool.source.names(pool.ids)]
    assert all((expected[name] == row).all() for name, row in zip(names, pool.rows_of(pool.ids), strict=True))
    server.asked.clear()
    shown = AddressList(file)
    assert {shown.encoded(item) for item in range(N)} == set(server.files.values())
    assert server.asked == []


def test_an_image_that_was_replaced_does_not_continue_a_pool(tmp_path: Path, server: Server) -> None:
    """Though the former one is in the cache."""
    build(AddressList(listed(tmp_path, server, PATHS[:20])), tmp_path / "pool")
    server.files[PATHS[3]] = picture(100)
    with pytest.raises(InputError, match=r"item \d+ has changed, .*/3 é.png"):
        build(AddressList(listed(tmp_path, server, PATHS)), tmp_path / "pool")


def test_a_byte_pool_reads_its_sample_once(tmp_path: Path, server: Server) -> None:
    """The images to which the bytes are fitted come from the cache when they are stored."""
    paths = [f"/many/{i}.png" for i in range(2_000)]
    server.files = {path: picture(i) for i, path in enumerate(paths)}
    build(AddressList(listed(tmp_path, server, paths)), tmp_path / "pool", dtype="byte")
    assert len(server.asked) == len(paths)


def test_a_list_that_grew_continues_the_pool(tmp_path: Path, server: Server) -> None:
    """Ids stay; new images come after them."""
    build(AddressList(listed(tmp_path, server, PATHS[:20])), tmp_path / "pool")
    before = Pool.open(tmp_path / "pool").source.names(np.arange(20))
    pool = build(AddressList(listed(tmp_path, server, PATHS)), tmp_path / "pool")
    assert pool.source.names(np.arange(20)) == before
    assert len(pool) == N


@pytest.mark.parametrize(
    ("queries", "added"), [(["?size=1", "?v=1"], "?size=2"), (["", ""], "?size=2"), (["?size=1", ""], "")]
)
def test_an_address_that_gets_a_twin_stays_the_same_image(
    tmp_path: Path, server: Server, queries: list[str], added: str
) -> None:
    """Before, its name had no row number. The pool shows it before and after it has grown."""
    addresses = [f"{server.address}/{i}.png{query}" for i, query in enumerate(queries)]
    server.files = {f"/{i}.png": picture(i) for i in range(3)}
    file = tmp_path / "list.txt"
    file.write_text("\n".join(addresses), "utf-8")
    before = build(AddressList(file), tmp_path / "pool")
    names, shown = before.source.names(np.arange(2)), [before.source.encoded(item) for item in (0, 1)]
    twin = f"{server.address}/0.png{added}"
    file.write_text("\n".join([*addresses, twin]), "utf-8")
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    first = names.index(f"{server.address}/0.png")
    server.asked.clear()
    assert Pool.open(tmp_path / "pool").source.encoded(first) == shown[first]
    assert server.asked == [addresses[0].removeprefix(server.address)]
    pool = build(AddressList(file), tmp_path / "pool")
    assert len(pool) == 3
    assert pool.source.names(np.arange(3)) == [*names, f"{server.address}/0.png (row 3)"]
    for item, address in zip((first, 2), (addresses[0], twin), strict=True):
        server.asked.clear()
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        Pool.open(tmp_path / "pool").source.encoded(item)
        assert server.asked == [address.removeprefix(server.address)]


def test_an_address_before_its_twin_is_not_taken_for_it(tmp_path: Path, server: Server) -> None:
    """A list that does not begin as before is refused, so that no label gets another image."""
    file = listed(tmp_path, server, PATHS[:2])
    build(AddressList(file), tmp_path / "pool")
    one, other = file.read_text("utf-8").splitlines()
    file.write_text("\n".join([f"{one}?size=2", one, other]), "utf-8")
    with pytest.raises(InputError, match="has changed since the pool was made"):
        build(AddressList(file), tmp_path / "pool")
    assert Pool.open(tmp_path / "pool").source.encoded(0) in {picture(0), picture(1)}


def test_a_password_of_any_letters_is_sent(tmp_path: Path, server: Server) -> None:
    """As UTF-8."""
    file = listed(tmp_path, server, PATHS[:1])
    file.write_text(file.read_text("utf-8").replace("://", "://ł:пароль@"), "utf-8")
    AddressList(file).encoded(0)
    scheme, _, encoded = server.users[-1].partition(" ")
    assert (scheme, base64.b64decode(encoded).decode("utf-8")) == ("Basic", "ł:пароль")


def test_a_stopped_build_does_not_wait_for_the_network(tmp_path: Path, server: Server) -> None:
    """Pauses end, and nothing counts as unreadable."""
    fetching.PATIENCE = 600.0
    fetching.FIRST_PAUSE = 600.0
    server.faults = {path: [503] for path in PATHS}
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    pool = build(AddressList(listed(tmp_path, server)), tmp_path / "pool", stop=stop, threads=2)
    assert not pool.complete
    assert pool.problems() == []


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_cells_of_a_list_are_read_as_they_are_written(tmp_path: Path, suffix: str) -> None:
    """Classes that look like numbers keep their zeros; other columns may have cells of any kind."""
    rows = [(i, f"https://example.org/{i}.png", f"{i % 3:03}") for i in range(40_000)]
    file = tmp_path / f"list{suffix}"
    if suffix == ".csv":
        file.write_text(
            "\n".join(["id,url,label", *(f"{i},{u},{c}" for i, u, c in rows), "A17,http://x/y.png,"])
        )
    else:
        dicts = [{"id": i, "url": url, "label": label} for i, url, label in rows]
        file.write_text("\n".join(map(json.dumps, [*dicts, {"id": "A17", "url": "http://x/y.png"}])))
    source = source_from(f"urls:{file}")
    assert len(source) == len(rows) + 1
    assert source.classes == ("000", "001", "002")


def test_a_pool_of_a_list_of_guessed_types_keeps_them(tmp_path: Path, server: Server) -> None:
    """It was built before cells were read as they are written. It opens and grows with the same classes."""
    file = tmp_path / "list.csv"

    def write(n: int) -> None:
        rows = [f"{server.address}{path}?v=1,{i % 2:03}" for i, path in enumerate(PATHS[:n])]
        file.write_text("\n".join(["url,label", *rows]), "utf-8")

    write(20)
    former = AddressList(file, as_written=False)
    assert "as_written" not in former.spec()
    build(former, tmp_path / "pool")
    write(N)
    pool = build(AddressList(file), tmp_path / "pool")
    assert (pool.classes, len(pool.source)) == (("0", "1"), N)
    assert "as_written" not in Pool.open(tmp_path / "pool").source.spec()


BAD_LISTS = {
    "empty.txt": ("", "has no addresses that begin with"),
    "none.txt": ("ftp://x/y.jpg\n", "has no addresses that begin with"),
    "headless.csv": (
        f"https://x.org/{SECRET}\nhttps://x.org/2\n",
        "the first line of .* must name its columns",
    ),
    "two.csv": ("a,b\nhttp://x/1,http://x/2\n", "has several columns of addresses: choose one of a, b"),
    "no.csv": ("a,b\n1,2\n", "has no column of addresses"),
    "damaged.parquet": (f"PAR1{SECRET}", "is damaged, or no list"),
}


@pytest.mark.parametrize("name", BAD_LISTS)
def test_a_bad_list_is_one_sentence(tmp_path: Path, name: str) -> None:
    """Without its content."""
    content, message = BAD_LISTS[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message) as error:
        source_from(f"urls:{tmp_path / name}")
    assert SECRET not in str(error.value)


def test_an_address_that_is_there_twice_is_one_image(tmp_path: Path, server: Server) -> None:
    """Addresses that differ in the query only are told apart by their rows."""
    one = server.address + PATHS[0]
    (tmp_path / "list.txt").write_text(
        "\n".join([one, f"{one}?id=1", one, f"{one}#x", f"{one}?id=2"]), "utf-8"
    )
    source = AddressList(tmp_path / "list.txt")
    assert sorted(source.names(np.arange(len(source)))) == [f"{one} (row {row})" for row in (1, 2, 5)]
    again = open_source(source.spec(), None)
    assert [again.encoded(item) for item in range(3)] == [picture(0)] * 3
    assert {path.partition("?")[2] for path in server.asked} == {"", "id=1", "id=2"}
