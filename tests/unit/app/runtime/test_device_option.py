from __future__ import annotations

import subprocess
import sys

import click
import pytest
import torch
from click.testing import CliRunner

from closecall.app.cli.errors import PlainErrors
from closecall.app.cli.main import main
from closecall.app.runtime.device_option import device_option
from closecall.core.accelerator.device import Device


@click.group(cls=PlainErrors)
def group() -> None:
    pass


@group.command()
@device_option
def scan(device: Device | None) -> None:
    click.echo(f"given: {device}")


def given(*words: str) -> str:
    return CliRunner().invoke(group, ["scan", *words]).output


def test_without_the_option_there_is_no_device_and_no_torch():
    """And nothing is printed about it."""
    assert given() == "given: None\n"
    words = ["from closecall.app.cli.main import main", "main(['serve', '/nowhere/at/all'])"]
    code = f"import atexit, sys; atexit.register(lambda: print('torch' in sys.modules)); {'; '.join(words)}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout == "False\n"
    assert "There is no project at /nowhere/at/all" in ended.stderr


def test_a_device_is_opened_and_named():
    assert given("--device", "cpu") == f"Pools are scanned on cpu.\ngiven: {Device('cpu', 'cpu')}\n"


def test_auto_without_a_card_leaves_the_pools_to_the_processors(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    expected = "There is no graphics processor here: the processors scan the pools.\ngiven: None\n"
    assert given("--device", "auto") == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", "device must be auto, cpu, cuda, cuda:NUMBER or mps, got 'gpu'"),
        ("cuda:99", "finds no cuda:99"),
    ],
)
def test_serve_refuses_a_missing_device_in_a_sentence(tmp_path, name, message):
    """Before it opens anything."""
    result = CliRunner().invoke(main, ["serve", str(tmp_path), "--device", name])
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.splitlines()) == 1


def test_without_torch_serve_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    result = CliRunner().invoke(main, ["serve", str(tmp_path), "--device", "auto"])
    assert result.exit_code == 2
    assert 'pip install "closecall[gpu]"' in result.output
