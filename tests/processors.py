"""Runs the tests as other processors would: ``python -m tests.processors [arguments of pytest]``.

OpenBLAS, numpy and Numba each choose their code by the processor, and sum in another order accordingly. Each
of the settings below makes one of them, or all, choose as on another processor; those that this processor
cannot execute are named and left out. Without arguments all tests run but those in a browser.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from scipy import linalg
from threadpoolctl import threadpool_info

WIDE = [name for name in __cpu_dispatch__ if "AVX512" in name or name == "X86_V4"]
"""Of numpy's ways to compute, those with vectors of 512 bits."""

AVX2 = "AVX2"
AVX512 = "AVX512F"

SETTINGS: dict[str, tuple[str | None, dict[str, str]]] = {
    "OpenBLAS for Intel's Haswell": (AVX2, {"OPENBLAS_CORETYPE": "Haswell"}),
    "OpenBLAS for Intel's Skylake-X": (AVX512, {"OPENBLAS_CORETYPE": "SkylakeX"}),
    "OpenBLAS for AMD's Zen": (AVX2, {"OPENBLAS_CORETYPE": "Zen"}),
    "two threads": (None, {"OPENBLAS_NUM_THREADS": "2"}),
    "numpy without AVX-512": (None, {"NPY_DISABLE_CPU_FEATURES": " ".join(WIDE)}),
    "Numba for any processor": (None, {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}),
    "nothing newer than SSE4.2": (
        None,
        {
            "OPENBLAS_CORETYPE": "Nehalem",
            "NPY_DISABLE_CPU_FEATURES": " ".join(__cpu_dispatch__),
            "NUMBA_CPU_NAME": "nehalem",
            "NUMBA_CPU_FEATURES": "",
        },
    ),
}
"""What the processor must be able to do, and the environment, by name."""


def in_force() -> str:
    """Return for which processor OpenBLAS, numpy and Numba have chosen their code in this process."""
    from numba.core.registry import cpu_target  # a second, which only a run with a header needs

    linalg.blas.ddot(np.ones(1), np.ones(1))
    libraries = [info for info in threadpool_info() if info["user_api"] == "blas"]
    blas = {f"{info['internal_api']} for {info.get('architecture')}" for info in libraries}
    threads = max(info["num_threads"] for info in libraries)
    used = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    numba = cpu_target.target_context.codegen().magic_tuple()[1]
    return (
        f"processor: {', '.join(sorted(blas))} with {threads} thread{'s' * (threads > 1)}; "
        f"numpy with {' '.join(used) or 'its baseline'}; Numba for {numba}"
    )


def main() -> None:
    """Run pytest under each setting; exit with 1 if a test fails under any."""
    words = sys.argv[1:] or ["tests/contract", "tests/unit"]
    failed = []
    for name, (needed, environment) in SETTINGS.items():
        print(f"\n== {name} ==", flush=True)
        if needed is not None and not __cpu_features__[needed]:
            print(f"left out: this processor has no {needed}")
            continue
        command = [sys.executable, "-m", "pytest", *words]
        if subprocess.run(command, env={**os.environ, **environment}, check=False).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"Tests failed under: {', '.join(failed)}")


if __name__ == "__main__":
    main()
