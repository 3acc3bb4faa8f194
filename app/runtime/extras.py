"""Optional packages, which come with an extra: ``pip install "closecall[reports]"``."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from closecall.core.errors import InputError

Extra = Literal["bench", "dask", "oidc", "peers", "reports"]
"""The extras in pyproject.toml that `app` imports; only `storage` imports the extra "postgresql"."""


def load(module: str, extra: Extra, *, distribution: str | None = None) -> Any:
    """Import and return an optional module; `distribution` is its package's name, if that is different.

    Raises
    ------
    InputError
        If the module can't be imported. The message says how to install it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        name = distribution or module
        raise InputError(f'{name} cannot be imported ({error}): pip install "closecall[{extra}]"') from error
