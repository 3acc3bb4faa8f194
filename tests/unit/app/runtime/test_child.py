from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from closecall.app.projects.pool_builder import Builder
from closecall.app.runtime import child
from closecall.app.sessions.new_project import NewProject
from closecall.core.pool.build_progress import being_built, lock_for_building
from closecall.core.pool.pool import Pool
from tests.folders import ROOT
from tests.projects import digits_pool, open_workspace
from tests.scale import thorough

SHADOWS = (
    "closecall",
    "app",
    "core",
    "storage",
    "json",
    "random",
    "selectors",
    "sitecustomize",
    "multiprocessing",
)
"""Our packages, and modules that Python itself imports when it starts a child."""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with modules of those names, each of which leaves a trace when it runs."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in SHADOWS:
        trace = f"open({str(folder)!r} + '/ran-{name}', 'w')\nraise SystemExit('the code of the user ran')\n"
        (folder / f"{name}.py").write_text(trace)
    monkeypatch.chdir(folder)
    monkeypatch.delenv(child.SAFE_PATH, raising=False)
    return folder


def ran(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("ran-*"))


def finished(builder: Builder) -> None:
    builder.start()
    assert builder._process is not None
    builder._process.wait(timeout=600)
    assert builder.problem() is None


@pytest.mark.parametrize("python_path", [thorough(None), f".{os.pathsep}/nowhere{os.pathsep}"])
def test_a_builder_runs_no_code_of_the_user(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python_path: str | None
) -> None:
    """Whatever modules lie in the working folder, and even where the environment names it."""
    if python_path is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", python_path)
    (tmp_path / "project").mkdir()
    finished(Builder(tmp_path / "project" / "pool", "digits:60", hostile))
    assert len(Pool.open(tmp_path / "project" / "pool").ids) > 30
    assert ran(hostile) == []


def test_a_command_runs_the_code_that_runs_here(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was put on this process's path since it began is not on the child's."""
    monkeypatch.syspath_prepend(hostile)
    said = subprocess.run(
        child.command("--help"), env=child.environment(), capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("Usage: closecall ")
    assert ran(hostile) == []


def test_workers_run_no_code_of_the_user(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is spawned finds Python's own modules, and then ours."""
    monkeypatch.setenv(child.SAFE_PATH, "")  # to be put back afterwards
    process = child.spawning().Process(target=child.environment)
    process.start()
    process.join(300)
    assert (process.exitcode, ran(hostile)) == (0, [])


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "nice"), reason="there is no niceness here")
def test_a_builder_gives_way_to_other_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child lowers its own priority."""
    monkeypatch.setattr("closecall.app.projects.pool_builder.NICE", 7)
    builder = Builder(tmp_path / "pool", "digits:500000", tmp_path)
    builder.start()
    try:
        while not being_built(tmp_path / "pool"):
            assert builder.problem() is None
            time.sleep(0.05)
        assert builder._process is not None
        assert os.getpriority(os.PRIO_PROCESS, builder._process.pid) == min(19, os.nice(0) + 7)
    finally:
        builder.stop()


@pytest.mark.thorough
@pytest.mark.slow
def test_a_builder_waits_for_another_builder_of_its_pool(tmp_path: Path) -> None:
    """That of a killed server may still be at work: no problem is reported, and one of both builds."""
    pool = tmp_path / "pool"
    pool.mkdir()
    builder = Builder(pool, "digits:60", tmp_path)
    with lock_for_building(pool):
        builder.start()
        assert builder._process is not None
        with pytest.raises(subprocess.TimeoutExpired):
            builder._process.wait(timeout=8)
        assert builder.problem() is None
        assert builder.progress() is None
    builder._process.wait(timeout=600)
    assert builder.problem() is None
    assert Pool.open(pool).complete


SLOW_IMPORTS = ("sklearn", "scipy.stats", "matplotlib", "umap", "onnxruntime", "av", "fsspec", "torch")
"""Packages that take long to load, and that few projects or moments need."""


@pytest.mark.parametrize(
    ("process", "needless"),
    [
        (
            "closecall.app.cli.main, closecall.app.display.pool_output",
            ("closecall.app.projects.project", *SLOW_IMPORTS),
        ),
        ("closecall.app.server.asgi, closecall.app.sessions.workspace", SLOW_IMPORTS),
    ],
    ids=["builder", "server"],
)
def test_processes_load_only_what_they_need(process: str, needless: Sequence[str]) -> None:
    """The first image waits until both have started."""
    code = f"import sys, {process}; print({set(needless)} & set(sys.modules))"
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == "set()"


def test_every_child_is_started_by_the_same_hand() -> None:
    """Nobody else names the interpreter, or runs code between fork and exec, which threads make unsafe."""
    found = set()
    for package in ("app", "client", "core", "storage"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Attribute) and node.attr in ("executable", "get_context"):
                    found.add(path.relative_to(ROOT).as_posix())
                if isinstance(node, ast.keyword) and node.arg == "preexec_fn":
                    found.add(path.relative_to(ROOT).as_posix())
    assert found <= {"app/runtime/child.py"}


@pytest.mark.thorough
def test_a_pool_is_built_where_the_working_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server outlives the folder that it was started in: projects can still be made and built."""
    pool, gone = digits_pool(), tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with open_workspace(tmp_path / "projects") as workspace:
        project = workspace.project(workspace.create(NewProject(str(pool), "Is this a 7?")))
        assert project.problem() is None
    (tmp_path / "other").mkdir()
    finished(Builder(tmp_path / "other" / "pool", "digits:60", gone))
