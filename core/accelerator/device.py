"""Devices that can scan pools, such as graphics processors. PyTorch, from the extra gpu, runs them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from closecall.core.errors import InputError

AUTO = "auto"
"""Name of the first graphics processor, if there is one; it never means PyTorch's own use of the CPU."""

_NAME = re.compile(r"auto|cpu|cuda(:\d+)?|mps")
_TRIED = 512


@dataclass(frozen=True)
class Device:
    """A device of PyTorch that has been tried out.

    Parameters
    ----------
    name : str
        PyTorch's name, such as "cuda:0".
    label : str
        Display name, such as "cuda:0 (NVIDIA L4)".
    """

    name: str
    label: str

    @property
    def has_float64(self) -> bool:
        """Whether the device computes in double precision."""
        return not self.name.startswith("mps")

    def free_bytes(self) -> int | None:
        """Return the free memory of the device in bytes; None for the CPU, which has no limit here."""
        torch = _torch()
        if self.name.startswith("cuda"):
            unused = torch.cuda.memory_reserved(self.name) - torch.cuda.memory_allocated(self.name)
            return int(torch.cuda.mem_get_info(self.name)[0] + unused)
        if self.name.startswith("mps"):
            return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
        return None


def open_device(name: str) -> Device | None:
    """Open the device `name`: "auto", "cpu", "cuda", "cuda:1" or "mps".

    PyTorch gives AMD's graphics processors the names of NVIDIA's. The result is None if the name is "auto"
    and there is no graphics processor.

    Raises
    ------
    InputError
        If there is no such device, if PyTorch is missing, or if the device fails or computes too roughly.
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"device must be auto, cpu, cuda, cuda:NUMBER or mps, got {name!r}")
    torch = _torch()
    n_cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
    has_mps = torch.backends.mps.is_available()
    if name == AUTO:
        name = "cuda" if n_cards else "mps"
        if not n_cards and not has_mps:
            return None
    kind, _, number = name.partition(":")
    if (kind == "cuda" and int(number or 0) >= n_cards) or (kind == "mps" and not has_mps):
        offered = [*(f"cuda:{card}" for card in range(n_cards)), *(["mps"] if has_mps else []), "cpu"]
        raise InputError(f"PyTorch {torch.__version__} finds no {name} here, only {', '.join(offered)}")
    if kind == "cuda":
        name = f"cuda:{number or 0}"
    device = Device(name, f"{name} ({torch.cuda.get_device_name(name)})" if kind == "cuda" else name)
    _try_out(torch, device)
    return device


def _try_out(torch: Any, device: Device) -> None:
    """Check that float32 products keep all digits.

    The bounds of `core.selection.nearest` don't hold with TF32 and the like, which round the factors.
    """
    torch.set_float32_matmul_precision("highest")
    try:
        unit = torch.eye(_TRIED, device=device.name)
        factors = torch.linspace(0.1, 1, 8 * _TRIED, device=device.name).reshape(_TRIED, 8)
        nothing = torch.zeros(8, device=device.name)
        is_exact = all(
            torch.equal(torch.addmm(nothing[:n], unit, factors[:, :n]), factors[:, :n]) for n in (1, 8)
        )
    except RuntimeError as error:
        raise InputError(f"The device {device.label} can't be used: {first_line(error)}") from error
    if not is_exact:
        raise InputError(f"The device {device.label} can't be used: it rounds before it multiplies")


def first_line(error: Exception) -> str:
    """Return the first line of PyTorch's message, which often has many, without a full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].removesuffix(".")


def _torch() -> Any:
    try:
        return import_module("torch")
    except ImportError as error:
        raise InputError(f'torch cannot be imported ({error}): pip install "closecall[gpu]"') from error
