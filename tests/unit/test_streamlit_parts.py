"""The parts of Streamlit that its documentation does not promise, and the versions that have them."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest
import streamlit
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
STREAMLIT = Path(streamlit.__file__).parent
DEPENDENCIES = [
    Requirement(line)
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
]


def imported() -> list[tuple[str, str]]:
    """Module and name of everything that the program takes from within Streamlit's package."""
    found = set()
    texts = [path.read_text("utf-8") for path in (ROOT / "app").rglob("*.py")]
    for text in (one for one in texts if "streamlit." in one):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("streamlit."):
                found |= {(str(node.module), alias.name) for alias in node.names}
    return sorted(found)


def styled() -> list[str]:
    """Test ids and classes of Streamlit's front end that our style sheets and scripts name."""
    found = set()
    for path in sorted((ROOT / "app").rglob("*")):
        if path.suffix in (".css", ".js"):
            found |= set(re.findall(r"""data-testid[\^*$|~]?=["']?(st\w+)""", path.read_text("utf-8")))
        if path.suffix == ".css":
            found |= set(re.findall(r"(?<![\w)\]])\.(st[A-Z]\w+)", path.read_text("utf-8")))
    return sorted(found)


@cache
def front_end() -> set[str]:
    """Names that begin with "st", of all scripts of Streamlit's front end."""
    scripts = (path.read_text("utf-8") for path in (STREAMLIT / "static").rglob("*.js"))
    return {name for script in scripts for name in re.findall(r"(?<!\w)st\w+", script)}


@pytest.mark.parametrize(("module", "name"), imported())
def test_what_is_imported_from_within_streamlit_is_there(module: str, name: str) -> None:
    """Another version may have moved it without a word."""
    assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("name", styled())
def test_what_style_sheets_name_is_in_the_front_end(name: str) -> None:
    """Otherwise a rule of ours styles nothing, and nobody notices."""
    assert name in front_end()


def test_style_sheets_and_programs_use_private_parts() -> None:
    """If they stop, so may the bound."""
    assert "stApp" in styled()
    assert ("streamlit.components.v2.types", "ComponentRenderer") in imported()


def test_streamlit_is_bounded_to_the_version_whose_private_parts_are_known() -> None:
    """The next minor version has to be looked at first."""
    (ours,) = [one for one in DEPENDENCIES if one.name == "streamlit"]
    installed = Version(version("streamlit"))
    assert installed in ours.specifier
    assert Version(f"{installed.major}.{installed.minor + 1}") not in ours.specifier


def test_what_is_pinned_is_what_the_package_asks_for() -> None:
    """The versions of requirements.txt are within the bounds of pyproject.toml."""
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    pinned = {one.name.lower(): one for one in map(Requirement, filter(None, lines))}
    for asked in DEPENDENCIES:
        (exact,) = pinned[asked.name.lower()].specifier
        assert exact.operator == "=="
        assert Version(exact.version) in asked.specifier, asked.name
