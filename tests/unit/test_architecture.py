from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FORBIDDEN = {
    "core": {"streamlit", "sqlalchemy", "alembic", "storage", "app"},
    "storage": {"streamlit", "core", "app"},
}


def imports(path: Path) -> set[str]:
    """Top-level packages that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("package", FORBIDDEN)
def test_imports_point_down(package):
    """Core and storage know neither each other, nor the app, nor Streamlit."""
    files = list((ROOT / package).rglob("*.py"))
    assert files
    wrong = {str(f.relative_to(ROOT)): bad for f in files if (bad := imports(f) & FORBIDDEN[package])}
    assert wrong == {}


def test_labeling_knows_no_streamlit():
    """Everything in app but the pages, the component and the server works without Streamlit."""
    pages = {"main.py", "server.py"}
    files = [f for f in (ROOT / "app").glob("*.py") if f.name not in pages]
    assert ROOT / "app" / "service.py" in files
    assert [f.name for f in files if "streamlit" in imports(f)] == []


def test_only_the_service_side_joins_core_and_storage():
    """No page and no component touches core's or storage's rooms beside their values and errors."""
    allowed = {"core.errors", "storage", "storage.errors"}
    for path in [*(ROOT / "app" / "pages").glob("*.py"), *(ROOT / "app" / "components").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module and module.partition(".")[0] in ("core", "storage"):
                assert module in allowed, f"{path.name} imports {module}"
