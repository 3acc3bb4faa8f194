"""Location and completeness of Numba's cache of compiled kernels.

Numba writes machine code beside each module, in ``__pycache__``. If the installation is read-only, the code
goes to the user's cache folder, and if that is read-only too, to a temporary folder. The environment variable
``NUMBA_CACHE_DIR`` replaces these folders.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal

import numba
import platformdirs
from llvmlite import binding

VARIABLE = "NUMBA_CACHE_DIR"

PACKAGE = Path(__file__).parents[1]
"""The folder whose modules define kernels."""

Step = Literal["training", "selection", "everything"]
"""A set of kernels to compile; each set includes the sets before it.

"training" is for training on dense rows and selection by a full scan. "selection" adds selection from
dense rows by all other strategies without hash codes. "everything" adds all other kernels.
"""


def use_writable_folder() -> None:
    """Make Numba cache machine code in a writable folder, in this process and its children."""
    if not os.environ.get(VARIABLE) and not _is_writable(PACKAGE / "numerics" / "__pycache__"):
        os.environ[VARIABLE] = str(_folder_outside())
        numba.config.reload_config()  # type: ignore[no-untyped-call]


def marker() -> Path:
    """Return the path of a file that is created after all kernels are compiled.

    The name of the file depends on the versions of Python and Numba, the processor, and the location and
    content of the source code.
    """
    digest = hashlib.sha256()
    for part in (
        numba.__version__,
        sys.implementation.cache_tag,
        os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name(),
        os.environ.get("NUMBA_CPU_FEATURES") or binding.get_host_cpu_features().flatten(),
        PACKAGE,
    ):
        digest.update(f"{part}\n".encode())
    for source in sorted(PACKAGE.rglob("*.py")):
        digest.update(source.read_bytes())
    folder = Path(os.environ.get(VARIABLE) or PACKAGE / "__pycache__")
    return folder / f"closecall-{digest.hexdigest()[:16]}.compiled"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _folder_outside() -> Path:
    folder = platformdirs.user_cache_path("closecall") / "kernels"
    if _is_writable(folder):
        return folder
    # A predictable name would let other users put machine code there, which this process would run.
    folder = Path(tempfile.mkdtemp(prefix="closecall-kernels-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
