from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PACKAGES = ("app", "core", "storage")

FORBIDDEN = {
    "core": {"streamlit", "sqlalchemy", "alembic", "closecall.storage", "closecall.app"},
    "storage": {"streamlit", "closecall.core", "closecall.app"},
}


def imports(path: Path) -> set[str]:
    """Packages that a file imports, anywhere in it: of ours the folder too, of others the first name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            found.add(".".join(parts[: 2 if parts[0] == "closecall" else 1]))
    return found


@pytest.mark.parametrize("package", FORBIDDEN)
def test_imports_point_down(package):
    """Core and storage know neither each other, nor the app, nor Streamlit."""
    files = list((ROOT / package).rglob("*.py"))
    assert files
    wrong = {str(f.relative_to(ROOT)): bad for f in files if (bad := imports(f) & FORBIDDEN[package])}
    assert wrong == {}


def test_our_packages_are_imported_by_their_whole_name():
    """A plain `core` could be anybody's, and in a checkout it would be a second copy of ours."""
    files = [file for folder in (*PACKAGES, "tests") for file in (ROOT / folder).rglob("*.py")]
    assert {str(f.relative_to(ROOT)): bad for f in files if (bad := imports(f) & set(PACKAGES))} == {}
    assert not set(PACKAGES) & set(sys.modules)


ROOMS = (
    "cli",
    "server",
    "pages",
    "components",
    "experiments",
    "exchange",
    "verification",
    "api",
    "sessions",
    "projects",
    "indexes",
    "engine",
    "display",
    "runtime",
)
"""Of app, from the top down: a file imports from its own room and those below."""

WITH_STREAMLIT = {"pages", "components", "server"}
SPEAKS_TO_PAGES = "closecall.app.experiments.bench.team.page"
"""A simulated browser: it reads Streamlit's messages."""


def room_of(module: str) -> str | None:
    """The room of one of app's modules; None for those of other packages."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["closecall", "app"] and len(parts) > 2 else None


def upward(graph: dict[str, set[str]]) -> list[str]:
    """Imports from a room above."""
    found = []
    for name, others in graph.items():
        room = room_of(name)
        for other in sorted(others):
            above = room_of(other)
            if room and above and ROOMS.index(above) < ROOMS.index(room):
                found.append(f"{name} imports {other}")
    return found


def test_every_file_of_app_has_a_room():
    """And there is no room that nobody knows of."""
    assert {room_of(name) for name in modules()} - {None} == set(ROOMS)
    assert [path.name for path in (ROOT / "app").glob("*.py")] == ["__init__.py"]
    assert sorted(path.name for path in (ROOT / "core").glob("*.py")) == [
        "__init__.py",
        "errors.py",
        "warmup.py",
    ]


@pytest.mark.parametrize("package", ["app", "core"])
def test_the_architecture_page_names_every_room(package):
    """A newcomer finds each folder there."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rooms = [path.name for path in (ROOT / package).iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert [name for name in sorted(rooms) if f"`{package}/{name}/`" not in page] == []


def test_rooms_import_downwards():
    """In functions and for type checkers too."""
    assert upward(imported(modules())) == []


def test_an_import_that_runs_up_is_found():
    """From engine to pages; not the other way."""
    audit, label = "closecall.app.engine.audit", "closecall.app.pages.label"
    assert upward({audit: {label}, label: {audit}}) == [f"{audit} imports {label}"]


def test_streamlit_stays_in_its_rooms():
    """Everything else works without it."""
    files = {name: path for name, path in modules().items() if room_of(name) not in WITH_STREAMLIT}
    assert [name for name, path in files.items() if "streamlit" in imports(path)] == [SPEAKS_TO_PAGES]


def test_only_the_service_side_joins_core_and_storage():
    """No page and no component touches core's or storage's rooms beside their values and errors."""
    allowed = {"core.errors", "core.pool.manifest", "storage", "storage.errors"}
    for path in [*(ROOT / "app" / "pages").glob("*.py"), *(ROOT / "app" / "components").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module and module.split(".")[:2] in (["closecall", "core"], ["closecall", "storage"]):
                assert module.removeprefix("closecall.") in allowed, f"{path.name} imports {module}"


def modules() -> dict[str, Path]:
    """Every file of the three packages, by its dotted name."""
    found = {}
    for path in (file for package in PACKAGES for file in (ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(("closecall", *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    return found


def imported(files: dict[str, Path]) -> dict[str, set[str]]:
    """What each file imports of ours, in functions and for type checkers too."""
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                inside = {f"{node.module}.{alias.name}" for alias in node.names}
                names |= {one if one in files else node.module for one in inside}
        graph[name] = {one for one in names if one in files and one != name}
    return graph


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Files that import each other, however many lie between."""
    reached = {}
    for start in graph:
        seen, coming = set(), [start]
        while coming:
            new = graph[coming.pop()] - seen
            seen |= new
            coming += new
        reached[start] = seen
    return {
        frozenset(other for other in reached[one] if one in reached[other])
        for one in graph
        if one in reached[one]
    }


def test_there_are_no_circles():
    """No file imports itself by way of others."""
    assert circles(imported(modules())) == set()


def test_a_circle_is_found():
    """Also one that goes through a third file."""
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert circles(graph) == {frozenset("abc")}
