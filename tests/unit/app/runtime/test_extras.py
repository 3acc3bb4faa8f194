"""Optional packages: a missing one is named in one sentence, with the extra that brings it."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from closecall.app.runtime.extras import Extra, load
from closecall.core.errors import InputError

ROOT = Path(__file__).parents[4]


def test_an_optional_module_is_imported():
    assert load("json", "reports").dumps([1]) == "[1]"


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        InputError, match=r'^matplotlib cannot be imported .*: pip install "closecall\[reports\]"$'
    ):
        load("matplotlib", "reports")


def test_a_missing_module_is_named_by_its_distribution(monkeypatch):
    monkeypatch.setitem(sys.modules, "authlib.integrations.starlette_client", None)
    with pytest.raises(InputError, match=r'^authlib cannot be imported .*\[oidc\]"$'):
        load("authlib.integrations.starlette_client", "oidc", distribution="authlib")


def test_every_extra_that_a_sentence_names_exists():
    """Those of `Extra`, and those in sentences, are extras of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = set(get_args(Extra))
    for folder in ("app", "client", "core", "storage"):
        for file in (ROOT / folder).rglob("*.py"):
            named.update(re.findall(r'pip install "closecall\[(\w+)\]"', file.read_text("utf-8")))
    assert named >= {"bench", "oidc", "peers", "postgresql", "reports"}
    assert named <= project["optional-dependencies"].keys()
