"""The option ``--dask``: the workers of a Dask cluster help this process to search its pools."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from closecall.app.runtime import extras
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.core.workers.dask_crew import DaskCrew

THIS_MACHINE = ("127.0.0.1", "localhost", "::1")

SECONDS = 4.0
"""Default time limit of a search; see `core.workers.crew`."""

_certificate = click.Path(dir_okay=False, path_type=Path)


def dask_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--dask`` and its options to a command, whose argument `crew` gets a `DaskCrew` or None.

    The crew is closed when the command ends.
    """

    @wraps(function)
    def called(
        *args: Any,
        dask: str | None,
        dask_seconds: float,
        dask_tls_ca_file: Path | None,
        dask_tls_cert: Path | None,
        dask_tls_key: Path | None,
        **others: Any,
    ) -> Any:
        files = {"ca_file": dask_tls_ca_file, "client_cert": dask_tls_cert, "client_key": dask_tls_key}
        if dask is None:
            if any(files.values()):
                raise click.UsageError("The certificates are for --dask.")
            return function(*args, crew=None, **others)
        with closing(_joined(dask, dask_seconds, files)) as crew:
            return function(*args, crew=crew, **others)

    for option in (
        click.option(
            "--dask-tls-key", type=_certificate, help="Private key.  [default: from Dask's configuration]"
        ),
        click.option(
            "--dask-tls-cert",
            type=_certificate,
            help="Certificate.  [default: from Dask's configuration]",
        ),
        click.option(
            "--dask-tls-ca-file",
            type=_certificate,
            help="Certificate of the cluster's authority.  [default: from Dask's configuration]",
        ),
        click.option(
            "--dask-seconds",
            type=click.FloatRange(0.1),
            default=SECONDS,
            show_default=True,
            help="Seconds after which a selection is made without workers that do not answer.",
        ),
        click.option(
            "--dask",
            metavar="ADDRESS",
            help="Scheduler of a Dask cluster whose workers help to search the pool, such as tls://head:8786.",
        ),
    ):
        called = option(called)
    return called


def check_address(address: str) -> None:
    """Raise an InputError if the address is not one of a scheduler, or would need TLS.

    A process that reaches a scheduler can run any code on its workers.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls") or not parts.hostname:
        raise InputError(f"--dask is the address of a scheduler, such as tls://head:8786, got {address!r}")
    if parts.scheme != "tls" and parts.hostname not in THIS_MACHINE:
        raise InputError(
            f"--dask needs TLS beyond this machine, because who reaches the scheduler can run code: "
            f"start the cluster with certificates, and give tls://{parts.netloc}"
        )


def _joined(address: str, seconds: float, files: dict[str, Path | None]) -> DaskCrew:
    check_address(address)
    for path in files.values():
        if path is not None and not path.is_file():
            raise InputError(f"There is no certificate or key at {path}")
    extras.load("distributed", "dask")
    from distributed.security import Security

    from closecall.core.workers.dask_crew import DaskCrew

    given = {f"tls_{name}": str(path) for name, path in files.items() if path is not None}
    security = Security(require_encryption=True, **given) if address.startswith("tls:") else None
    return DaskCrew(address, security=security, seconds=seconds)
