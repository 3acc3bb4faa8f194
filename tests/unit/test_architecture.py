from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PACKAGES = ("app", "client", "core", "storage")

FORBIDDEN = {
    "client": {"streamlit", "sqlalchemy", "alembic", "closecall.app", "closecall.core", "closecall.storage"},
    "core": {"streamlit", "sqlalchemy", "alembic", "closecall.storage", "closecall.app", "closecall.client"},
    "storage": {"streamlit", "closecall.core", "closecall.app", "closecall.client"},
}

OTHERS_CODE = {"numpy", "pandas", "pyarrow", "urllib3"}
"""What the client may import beside Python's own modules; of these, only urllib3 outside of functions."""


def imports(path: Path) -> set[str]:
    """Packages that a file imports, anywhere in it: of ours the folder too, of others the first name."""
    found = set()
    for node in import_statements(path):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            found.add(".".join(parts[: 2 if parts[0] == "closecall" else 1]))
    return found


@pytest.mark.parametrize("package", FORBIDDEN)
def test_imports_point_down(package):
    """Core, storage and the client know neither each other, nor the app, nor Streamlit."""
    files = list((ROOT / package).rglob("*.py"))
    assert files
    wrong = {str(f.relative_to(ROOT)): bad for f in files if (bad := imports(f) & FORBIDDEN[package])}
    assert wrong == {}


def test_the_client_stands_alone():
    """A program that has it and urllib3 needs no other package, unless it asks for a frame or scores."""
    for path in (ROOT / "client").rglob("*.py"):
        others = {name for name in imports(path) if name != "closecall.client"} - sys.stdlib_module_names
        assert others <= OTHERS_CODE, path.name
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert not re.search(r"\b(numpy|pandas|pyarrow)\b", ast.unparse(node)), path.name


def test_only_experiments_use_the_client():
    """They measure the program from outside. Within it, nobody speaks HTTP with oneself."""
    users = {name for name, others in imported(modules()).items() if any(map(is_client, others))}
    assert {room_of(name) for name in users if not is_client(name)} <= {"experiments"}


def is_client(module: str) -> bool:
    return module.split(".")[:2] == ["closecall", "client"]


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


def room_of(module: str) -> str | None:
    """The room of one of app's modules; None for those of other packages."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["closecall", "app"] and len(parts) > 2 else None


def test_every_file_of_app_has_a_room():
    """And there is no room that nobody knows of."""
    assert {room_of(name) for name in modules()} - {None} == set(ROOMS)
    assert [path.name for path in (ROOT / "app").glob("*.py")] == ["__init__.py"]
    assert sorted(path.name for path in (ROOT / "core").glob("*.py")) == [
        "__init__.py",
        "errors.py",
        "warmup.py",
    ]


def test_the_house_is_in_order():
    """Imports run down, in functions and for type checkers too; there are no circles; see `violations`."""
    assert violations(ROOT) == []


AUDIT, LABEL = "closecall.app.engine.audit", "closecall.app.pages.label"
RACE = "closecall.app.experiments.race"

PLANTED = {
    "an import that runs up": (
        {"app/engine/audit.py": f"import {LABEL}"},
        [f"{AUDIT} imports {LABEL}, which is above"],
    ),
    "one in a function": (
        {"app/engine/audit.py": f"def f():\n    from {LABEL} import page"},
        [f"{AUDIT} imports {LABEL}, which is above"],
    ),
    "one for type checkers": (
        {"app/engine/audit.py": f"if TYPE_CHECKING:\n    import {LABEL}"},
        [f"{AUDIT} imports {LABEL}, which is above"],
    ),
    "a circle of three files": (
        {
            "core/svm.py": "import closecall.core.rows",
            "core/rows.py": "from closecall.core import jit",
            "core/jit.py": "from closecall.core.svm import train",
        },
        ["closecall.core.jit, closecall.core.rows, closecall.core.svm import each other"],
    ),
    "Streamlit outside its rooms": (
        {"app/sessions/grid.py": "from streamlit.runtime import exists"},
        ["closecall.app.sessions.grid imports Streamlit"],
    ),
    "a folder that the page doesn't name": (
        {"app/cellar/wine.py": "", "app/pages/label.py": ""},
        ["docs/architecture.md doesn't name app/cellar/"],
    ),
    "experiments used for labeling": (
        {"app/components/card.py": f"import {RACE}", "app/experiments/race.py": ""},
        [f"closecall.app.components.card imports {RACE}, which is for the command line"],
    ),
    "a relative import": (
        {"app/engine/audit.py": "from . import leases"},
        [f"{AUDIT} has a relative import"],
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_violation_is_found(planted, tmp_path):
    """One of each kind."""
    files, expected = PLANTED[planted]
    named = ("app/engine/", "app/pages/", "app/sessions/", "app/components/", "app/experiments/")
    for path, text in {"app/pages/label.py": "", **files}.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "architecture.md").write_text(" ".join(f"`{room}`" for room in named))
    assert violations(tmp_path) == expected


def test_only_the_service_side_joins_core_and_storage():
    """No page and no component touches core's or storage's rooms beside their values and errors."""
    allowed = {"core.errors", "core.pool.manifest", "storage", "storage.errors"}
    for path in [*(ROOT / "app" / "pages").glob("*.py"), *(ROOT / "app" / "components").glob("*.py")]:
        for node in import_statements(path):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module and module.split(".")[:2] in (["closecall", "core"], ["closecall", "storage"]):
                assert module.removeprefix("closecall.") in allowed, f"{path.name} imports {module}"


def violations(root: Path) -> list[str]:
    """What breaks the rules of docs/architecture.md, in sentences."""
    files = modules(root)
    graph = imported(files)
    found = []
    for name, others in graph.items():
        for other in sorted(others):
            room, above = room_of(name), room_of(other)
            if room and above and ROOMS.index(above) < ROOMS.index(room):
                found.append(f"{name} imports {other}, which is above")
            if above == "experiments" and room not in ("cli", "experiments"):
                found.append(f"{name} imports {other}, which is for the command line")
    found += [f"{', '.join(sorted(circle))} import each other" for circle in circles(graph)]
    for name, path in files.items():
        if room_of(name) not in WITH_STREAMLIT and "streamlit" in imports(path):
            found.append(f"{name} imports Streamlit")
        if any(isinstance(node, ast.ImportFrom) and node.level for node in import_statements(path)):
            found.append(f"{name} has a relative import")
    page = (root / "docs" / "architecture.md").read_text("utf-8")
    for package in ("app", "core"):
        parts = {path.relative_to(root / package).parts[0] for path in (root / package).rglob("*/*.py")}
        unnamed = [folder for folder in sorted(parts) if f"`{package}/{folder}/`" not in page]
        found += [f"docs/architecture.md doesn't name {package}/{folder}/" for folder in unnamed]
    return found


@cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Of a file, anywhere in it but in expressions, which have none."""
    found, coming = [], [ast.parse(path.read_text("utf-8"))]
    while coming:
        for node in ast.iter_child_nodes(coming.pop()):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.append(node)
            elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
                coming.append(node)
    return found


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Every file of our packages, by its dotted name."""
    found = {}
    for path in (file for package in PACKAGES for file in (root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(("closecall", *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    return found


def imported(files: dict[str, Path]) -> dict[str, set[str]]:
    """What each file imports of ours, in functions and for type checkers too."""
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        names: set[str] = set()
        for node in import_statements(path):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif node.module and not node.level:
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
