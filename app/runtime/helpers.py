"""What helps a process to search its pools: a device, and the workers of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from closecall.core.accelerator.device import Device
    from closecall.core.selection.reader import Crew


class Helpers(NamedTuple):
    """The helpers that the options of a command name; see `device_option` and `dask_option`.

    Parameters
    ----------
    device : Device or None
        Device that scans the pools.
    crew : Crew or None
        Workers that search segments of the pools.
    """

    device: Device | None = None
    crew: Crew | None = None


ALONE = Helpers()
