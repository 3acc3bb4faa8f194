from __future__ import annotations

import sys

import pytest
import torch

from closecall.core.accelerator import device
from closecall.core.accelerator.device import Device, open_device
from closecall.core.errors import InputError


@pytest.fixture
def _no_card(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.usefixtures("_no_card")
def test_without_a_card_auto_opens_nothing():
    """Never PyTorch's CPU, which is no faster than the program itself."""
    assert open_device("auto") is None


def test_the_cpu_is_opened_by_name():
    assert open_device("cpu") == Device("cpu", "cpu")
    assert Device("cpu", "cpu").free_bytes() is None


@pytest.mark.usefixtures("_no_card")
@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps"])
def test_a_device_that_is_missing_is_named(name):
    with pytest.raises(InputError, match=f"finds no {name} here, only cpu"):
        open_device(name)


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "", "cpu:0", "auto "])
def test_other_names_are_refused(name):
    with pytest.raises(InputError, match="device must be auto, cpu, cuda, cuda:NUMBER or mps, got"):
        open_device(name)


def test_cards_are_offered_by_number(monkeypatch):
    """The first is meant if there is no number."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda name: f"card of {name}")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    tried = []
    monkeypatch.setattr(device, "_try_out", lambda _, opened: tried.append(opened))
    with pytest.raises(InputError, match="finds no cuda:2 here, only cuda:0, cuda:1, cpu"):
        open_device("cuda:2")
    expected = Device("cuda:0", "cuda:0 (card of cuda:0)")
    assert open_device("auto") == open_device("cuda") == expected
    assert open_device("cuda:1") == Device("cuda:1", "cuda:1 (card of cuda:1)")
    assert tried == [expected, expected, Device("cuda:1", "cuda:1 (card of cuda:1)")]


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r'torch cannot be imported .*: pip install "closecall\[gpu\]"'):
        open_device("auto")


def test_a_device_that_fails_is_refused_in_a_sentence(monkeypatch):
    def failing(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError("CUDA error: no kernel image is available.\nCUDA kernel errors might be …")

    monkeypatch.setattr(torch, "eye", failing)
    with pytest.raises(InputError, match=r"cpu can't be used: CUDA error: no kernel image is available$"):
        open_device("cpu")


def test_a_device_with_rough_products_is_refused(monkeypatch):
    """As if it multiplied in TF32, which keeps ten bits of each factor."""
    exact = torch.addmm

    def rough(added: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return exact(added, one, (other.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32))

    monkeypatch.setattr(torch, "addmm", rough)
    with pytest.raises(InputError, match="cpu can't be used: it rounds before it multiplies"):
        open_device("cpu")
