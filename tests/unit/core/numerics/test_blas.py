from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from closecall.core.numerics.blas import one_thread


def n_threads() -> int:
    np.zeros((2, 2)) @ np.zeros((2, 2))
    return max(info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas")


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_what_was_is_put_back():
    """Also from within, and after an error."""
    with one_thread():
        assert n_threads() == 1
        with one_thread():
            assert n_threads() == 1
        assert n_threads() == 1
    assert n_threads() == 2
    with pytest.raises(ZeroDivisionError), one_thread():
        1 / 0  # noqa: B018
    assert n_threads() == 2


def test_threads_that_take_turns_put_back_what_was_before_the_first():
    """The one that began second leaves last."""
    begun, left, seen = threading.Event(), threading.Event(), []

    def second() -> None:
        with one_thread():
            begun.set()
            assert left.wait(60)
            seen.append(n_threads())

    thread = threading.Thread(target=second)
    with one_thread():
        thread.start()
        assert begun.wait(60)
    left.set()
    thread.join()
    assert seen == [1]
    assert n_threads() == 2


def test_a_library_that_is_loaded_later_is_limited_too():
    """SciPy brings a BLAS of its own."""
    found = """
import sys
from threadpoolctl import threadpool_info
from closecall.core.numerics.blas import one_thread

def blas():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]

with one_thread():
    pass
assert "scipy.linalg" not in sys.modules
import scipy.linalg
before = blas()  # no more than there are cores
with one_thread():
    assert set(blas()) == {1}
assert blas() == before
"""
    subprocess.run([sys.executable, "-c", found], check=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "2"})
