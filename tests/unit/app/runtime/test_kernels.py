"""Kernels that a child compiles while the server already serves."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from closecall.app.runtime import kernels
from closecall.app.runtime.background import ClosedError
from closecall.app.runtime.kernels import Preparation
from closecall.core.numerics import kernel_cache


def child(tmp_path, *statements: str) -> list[str]:
    """A command that runs these statements; `until(name)` waits for a file of the test's."""
    wait = (
        "import pathlib, sys, time",
        "def until(name):",
        f"    while not (pathlib.Path({str(tmp_path)!r}) / name).exists(): time.sleep(0.01)",
    )
    return [sys.executable, "-u", "-c", "\n".join([*wait, *statements])]


def reached(condition, seconds: float = 20.0) -> bool:
    """Whether the condition holds before long."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Starts a preparation as the server does, with a child of these statements."""
    made = []

    def begin(*statements: str) -> Preparation:
        made.append(Preparation(child(tmp_path, *statements)))
        monkeypatch.setattr(kernels, "_running", made[-1])
        return made[-1]

    yield begin
    for preparation in made:
        preparation.stop()


def test_steps_are_ready_one_after_the_other(begun, tmp_path):
    begun(
        "print('0.25')",
        "until('a')",
        "print('0.5 training')",
        "until('b')",
        "print('0.99 training selection everything')",
    )
    assert reached(lambda: kernels.share() == 0.25)
    assert not kernels.is_ready("training")
    (tmp_path / "a").touch()
    kernels.wait_for("training")
    assert (kernels.is_ready("training"), kernels.is_ready("selection"), kernels.share()) == (
        True,
        False,
        0.5,
    )
    (tmp_path / "b").touch()
    kernels.wait_for("everything")
    assert reached(lambda: kernels.is_ready("selection"))  # a line's steps are ready in any order
    assert kernels.share() is None, "the page shows no progress any more"


def test_where_nothing_is_being_compiled_everything_is_ready():
    assert kernels.is_ready("everything")
    assert kernels.share() is None
    kernels.wait_for("everything")


def test_a_child_that_fails_leaves_kernels_to_whoever_uses_them(begun, caplog):
    """Its last words are logged, and nobody waits any longer."""
    begun("print('0.1')", "print('no room on the disk', file=sys.stderr)", "sys.exit(3)")
    kernels.wait_for("everything")
    assert kernels.is_ready("everything")
    assert reached(lambda: "will be when they are used: no room on the disk" in caplog.text)


def test_whoever_waits_is_released_when_the_server_stops(begun):
    preparation = begun("until('never')")
    raised = []

    def wait() -> None:
        try:
            kernels.wait_for("training")
        except ClosedError as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    preparation.stop()
    waiting.join(20)
    assert len(raised) == 1


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "is killed"])
def test_a_child_leaves_no_temporary_files(begun, tmp_path, monkeypatch, ends):
    """Even if it is killed before it can remove them."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    preparation = begun(
        "import tempfile",
        "(pathlib.Path(tempfile.mkdtemp()) / 'row').touch()",
        "print('0.5')",
        *([] if ends else ["until('never')"]),
    )
    assert reached(lambda: preparation.share == 0.5)
    assert ends or [file.name for file in temporary.rglob("row")] == ["row"]
    preparation.stop()
    assert list(temporary.iterdir()) == []


def test_a_server_with_compiled_kernels_starts_no_child(tmp_path, monkeypatch):
    """The mark of a complete warm-up is in the folder of the machine code, and for these sources only."""
    monkeypatch.setenv(kernel_cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(kernels, "Preparation", lambda _: pytest.fail("a child was started"))
    kernel_cache.marker().touch()
    with kernels.prepared_in_background():
        assert kernels.is_ready("everything")


def test_other_sources_have_another_mark(tmp_path, monkeypatch):
    monkeypatch.setenv(kernel_cache.VARIABLE, str(tmp_path))
    package = tmp_path / "core"
    package.mkdir()
    (package / "svm.py").write_text("a = 1")
    monkeypatch.setattr(kernel_cache, "PACKAGE", package)
    before = kernel_cache.marker()
    (package / "svm.py").write_text("a = 2")
    assert kernel_cache.marker() != before


def test_machine_code_of_a_read_only_installation_goes_to_the_users_cache(tmp_path, monkeypatch):
    """And where that is read-only, too, to a temporary folder."""
    asked = []

    def is_writable(folder) -> bool:
        asked.append(folder)
        return False

    monkeypatch.delenv(kernel_cache.VARIABLE, raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(kernel_cache, "_is_writable", is_writable)
    folder = kernel_cache._folder_outside()
    assert [place.name for place in asked] == ["kernels"]
    assert folder.is_dir()
    assert folder.parent == tmp_path
