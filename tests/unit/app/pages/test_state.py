"""A choice is not undone by a run of the page that began before it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import closecall.app.pages

PAGES = sorted(Path(closecall.app.pages.__path__[0]).glob("*.py"))


def page() -> None:
    import streamlit as st

    from closecall.app.pages.state import show_value

    shown = show_value("chosen", st.session_state.get("wanted", "b"))
    st.radio("Choose", ["a", "b", "c"], "abc".index(shown), key="chosen")


def test_a_control_is_set_only_if_it_shows_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set is sent to the browser, which then forgets what a person has chosen meanwhile."""
    # Streamlit puts the page there, and processes that begin later would run it.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    app = AppTest.from_function(page).run()
    assert (app.radio[0].value, app.radio[0].proto.set_value) == ("b", True)
    app.run()
    assert (app.radio[0].value, app.radio[0].proto.set_value) == ("b", False)
    assert app.radio[0].proto.default == 1  # which the browser shows if it never got what the first run sent
    app.session_state["wanted"] = "c"
    app.run()
    assert (app.radio[0].value, app.radio[0].proto.set_value) == ("c", True)
    app.session_state["wanted"] = "a"
    app.radio[0].set_value("a").run()
    assert (app.radio[0].value, app.radio[0].proto.set_value) == ("a", False)
    app.radio[0].set_value("b").run()
    assert (app.radio[0].value, app.radio[0].proto.set_value) == ("a", True)  # the choice was refused


def constants(node: ast.expr) -> set[str]:
    """The constant, if it is one."""
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


@pytest.mark.parametrize("path", PAGES, ids=[path.stem for path in PAGES])
def test_pages_set_no_control_in_another_way(path: Path) -> None:
    """Callbacks may, which run before the page does."""
    tree = ast.parse(path.read_text("utf-8"))
    keys, inner = set[str](), set[ast.AST]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(one.arg == "on_change" for one in node.keywords):
            keys |= {key for one in node.keywords if one.arg == "key" for key in constants(one.value)}
        if isinstance(node, ast.FunctionDef) and node.col_offset:
            inner |= set(ast.walk(node))
    assigned = {
        key
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and node not in inner
        for target in node.targets
        if isinstance(target, ast.Subscript)
        for key in constants(target.slice)
    }
    assert not keys & assigned


@pytest.mark.parametrize("path", PAGES, ids=[path.stem for path in PAGES])
def test_controls_also_begin_with_the_value_that_is_shown(path: Path) -> None:
    """Streamlit may drop what a run sends to the browser, if the next run begins at once."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            assert not (isinstance(called, ast.Name) and called.id == "show_value"), node.lineno
