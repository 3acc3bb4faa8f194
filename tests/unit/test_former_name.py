"""What was made when the program was called Marginalia goes on; see also tests/browser/test_upgrading.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import platformdirs
import pytest

from closecall.app.experiments.compare.race_plan import RacePlan
from closecall.app.projects.data_folder import data_folder, former_folder_beside
from closecall.core.errors import InputError
from closecall.core.selection.registry import make_strategy, strategy_names
from closecall.storage import postgres
from closecall.storage.label_studio import read_tasks
from closecall.storage.postgres import Schema


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """The folder of users' data folders."""
    monkeypatch.setattr(platformdirs, "user_data_dir", lambda name: str(tmp_path / name))
    return tmp_path


@pytest.mark.parametrize(
    ("there", "used", "beside"),
    [
        ((), "closecall", None),
        (("closecall",), "closecall", None),
        (("marginalia",), "marginalia", None),
        (("closecall", "marginalia"), "closecall", "marginalia"),
    ],
)
def test_an_existing_data_folder_is_used_in_place(home, there, used, beside):
    """It is never moved; where both are there, the older one is named."""
    for name in there:
        (home / name).mkdir()
    assert data_folder() == home / used
    assert former_folder_beside(data_folder()) == (home / beside if beside else None)
    assert sorted(path.name for path in home.iterdir()) == sorted(there)


def test_a_folder_that_somebody_chose_has_none_beside(home):
    """Only who takes the usual folder may wonder where the older projects are."""
    (home / "marginalia").mkdir()
    (home / "closecall").mkdir()
    assert former_folder_beside(home) is None


def test_labels_at_an_address_without_a_schema_are_found():
    """And programs of both names take turns there: their advisory locks have the same numbers."""
    assert Schema.at("postgresql://ada@db.example.org/labels").schema == "marginalia"
    assert (postgres._WRITERS, postgres._IN_USE) == (0x4D617267, 0x4D617268)


def test_tasks_whose_results_name_the_former_item_are_read(tmp_path):
    """As they were exported for Label Studio, and annotated there."""
    result = {
        "from_name": "concept:Is this a 7?",
        "to_name": "marginalia:item",
        "type": "choices",
        "value": {"choices": ["yes"]},
    }
    task = {"data": {"item": 3}, "annotations": [{"result": [result]}]}
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps([task]))
    assert list(read_tasks(path)) == [("task 1", task)]


def test_a_comparison_goes_on(tmp_path):
    """Its words have the version under the former name."""
    plan = RacePlan("pool", "digest", classes=(0, 1), runs=1, iterations=2, strategies=("random",))
    plan.settle(tmp_path, ["a", "b"])
    (path,) = tmp_path.glob("*.json")
    said = json.loads(path.read_text())
    said["marginalia"] = said.pop("closecall")
    path.write_text(json.dumps(said))
    plan.settle(tmp_path, ["a", "b"])
    said["marginalia"] = "0.0.1"
    path.write_text(json.dumps(said))
    with pytest.raises(InputError, match="has a comparison with closecall 0\\.0\\.1"):
        plan.settle(tmp_path, ["a", "b"])


def test_a_strategy_in_the_former_group_says_where_it_belongs(monkeypatch):
    """In one sentence; it is not among the names that can be chosen."""
    former = metadata.EntryPoint("newest", "my_package:Newest", "marginalia.strategies")
    groups = {former.group: [former]}
    monkeypatch.setattr(
        "closecall.core.selection.registry.entry_points",
        lambda group, name=None: [e for e in groups.get(group, []) if name in (None, e.name)],
    )
    assert "newest" not in strategy_names()
    with pytest.raises(InputError) as refusal:
        make_strategy("newest")
    assert str(refusal.value) == (
        "strategy newest of my_package:Newest is registered in the group marginalia.strategies: "
        "register it in closecall.strategies, and reinstall its package"
    )


def test_a_strategy_with_a_former_import_names_the_new_one(monkeypatch, tmp_path):
    """A package that was written for `core` says what to write instead, in one sentence."""
    (tmp_path / "old_package.py").write_text("from core.selection import QueryStrategy\n")
    script = (
        "from importlib import metadata\n"
        "from closecall.core.errors import InputError\n"
        "from closecall.core.selection import make_strategy, registry\n"
        "entry = metadata.EntryPoint('old', 'old_package:Old', 'closecall.strategies')\n"
        "registry.entry_points = lambda group, name=None: [entry] if group == entry.group else []\n"
        "try:\n"
        "    make_strategy('old')\n"
        "except InputError as refusal:\n"
        "    print(refusal)\n"
    )
    said = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.strip() == (
        "strategy old of old_package:Old cannot be loaded: it imports core, which is now closecall.core"
    )
