"""The option --device, which names a device that scans pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from closecall.core.accelerator.device import Device


def _opened(context: click.Context, option: click.Parameter, name: str | None) -> Device | None:
    """Open the device, and print where pools are scanned."""
    del context, option
    if name is None:
        return None
    from closecall.core.accelerator.device import open_device

    device = open_device(name)
    if device is None:
        click.echo("There is no graphics processor here: the processors scan the pools.")
    else:
        click.echo(f"Pools are scanned on {device.label}.")
    return device


def device_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --device to a command, whose argument `device` gets a `Device` or None."""
    return click.option(
        "--device",
        metavar="NAME",
        callback=_opened,
        help="Scan pools on this device: auto, cpu, cuda, cuda:1 or mps (the extra gpu).  [default: the "
        "processors, without the extra]",
    )(function)
