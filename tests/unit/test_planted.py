"""The table of planted bugs follows the code; `python -m tests.planted` tries them."""

from __future__ import annotations

import ast

import pytest

from tests.folders import ROOT
from tests.planted import BUGS


def test_there_are_twenty_in_twenty_places():
    assert len(BUGS) >= 20
    assert len({bug.file for bug in BUGS}) >= 20
    assert len({bug.name for bug in BUGS}) == len(BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_can_be_planted_and_its_tests_are_there(bug, tmp_path):
    source = (ROOT / bug.file).read_text("utf-8")
    copy = tmp_path / bug.file
    copy.parent.mkdir(parents=True)
    copy.write_text(source, "utf-8")
    bug.plant(tmp_path)
    planted = copy.read_text("utf-8")
    assert planted != source
    if copy.suffix == ".py":
        assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse(source))
    assert all((ROOT / place).exists() for place in bug.tests.split())
