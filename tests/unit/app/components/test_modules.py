"""The modules that browsers import."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from closecall.app import components
from closecall.app.components import Component
from closecall.app.components.modules import FOLDER, address_of, contents, digest
from tests.folders import ROOT

COMPONENTS = [one for one in vars(components).values() if isinstance(one, Component)]


def reached(name: str) -> set[str]:
    """A module and all that it imports, by their names."""
    found, coming = set(), [name]
    while coming:
        module = coming.pop()
        found.add(module)
        for path in re.findall(r'from "(\..*)";$', contents()[module].decode(), re.MULTILINE):
            other = (FOLDER / module).parent.joinpath(path).resolve().relative_to(FOLDER.resolve()).as_posix()
            if other not in found:
                coming.append(other)
    return found


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.name)
def test_a_component_can_be_shown(component: Component) -> None:
    """What its module imports is served, and it exports what Streamlit calls."""
    assert reached(component.module) <= set(contents())
    assert re.search(
        r"^export default mounting\(\w+\);$", contents()[component.module].decode(), re.MULTILINE
    )
    assert address_of(component.module) in component.script


def test_every_module_belongs_to_a_component() -> None:
    """None is left over."""
    assert set().union(*(reached(component.module) for component in COMPONENTS)) == set(contents())


def test_other_contents_have_other_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed module, a renamed one, and what moved from one to another."""
    from closecall.app.components import modules

    versions = [{"a/b.js": b"1"}, {"a/b.js": b"2"}, {"a/c.js": b"1"}, {"a/b.js": b"1", "a/c.js": b""}]
    found = {digest()}
    for version in versions:
        monkeypatch.setattr(modules, "contents", lambda version=version: version)
        found.add(modules.digest.__wrapped__())
    assert len(found) == 5


def test_the_wheel_has_what_the_pages_need() -> None:
    """Modules, markup and styles are package data; what is needed to check them is not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["closecall.app"]
    packed = {path for pattern in patterns for path in FOLDER.parent.glob(pattern) if FOLDER in path.parents}
    named = {name for component in COMPONENTS for name in (*component.markup, *component.styles)}
    assert {FOLDER / name for name in (*contents(), *named)} <= packed
    assert {path.suffix for path in packed if path.is_file() and "__pycache__" not in path.parts} == {
        ".css",
        ".html",
        ".js",
    }


def test_modules_lie_one_folder_deep() -> None:
    """Deeper ones would be neither served nor in the wheel."""
    assert sorted(FOLDER.rglob("*.js")) == sorted(Path(FOLDER, name) for name in contents())
