"""Threads of a server share one arena of glibc, and what they free goes back to the system."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from closecall.app.runtime import child


def output(script: str, variable: str, wanted: str | None) -> str:
    """What a script prints in a process with or without this variable of the environment."""
    environment = {name: value for name, value in child.environment().items() if name != variable}
    if wanted is not None:
        environment[variable] = wanted
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    words = [sys.executable, "-c", script]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout


THREADS_ALLOCATE = """
import ctypes, threading
from closecall.app.cli.main import main

main(["pool", "--help"], standalone_mode=False)
together = threading.Barrier(8)

def allocate():
    together.wait()
    kept.extend(bytearray(10_000) for _ in range(100))

kept = []
threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(stream := libc.fdopen(1, b"w")))
libc.fflush(ctypes.c_void_p(stream))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this is glibc's malloc only")
@pytest.mark.parametrize(("wanted", "arenas"), [(None, {1}), ("4", {2, 3, 4})])
def test_threads_of_a_command_share_one_arena(wanted, arenas):
    """Unless the environment asks for several."""
    assert output(THREADS_ALLOCATE, "MALLOC_ARENA_MAX", wanted).count("<heap nr=") in arenas


INFO = """
import ctypes
from closecall.app.cli.main import main

class Info(ctypes.Structure):
    names = "arena", "small", "fast", "maps", "with_pages", "peak", "fast_bytes", "used", "free", "at_end"
    _fields_ = [(name, ctypes.c_size_t) for name in names]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
main(["pool", "--help"], standalone_mode=False)
"""

LARGE_AGAIN = (
    INFO
    + """
large = bytearray(16_000_000)
del large
before = libc.mallinfo2().with_pages
arrays = [bytearray(5_000_000) for _ in range(5)]
print(libc.mallinfo2().with_pages - before >= 25_000_000)
"""
)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this is glibc's malloc only")
@pytest.mark.parametrize(("wanted", "has_pages"), [(None, "True"), ("8000000", "False")])
def test_large_allocations_keep_pages_of_their_own(wanted, has_pages):
    """After a larger one was freed, too, unless the environment asks otherwise."""
    assert output(LARGE_AGAIN, "MALLOC_MMAP_THRESHOLD_", wanted).splitlines()[-1] == has_pages


FREED = (
    INFO
    + """
large = bytes(2_000_000)
del large
print(libc.mallinfo2().at_end >= 2_000_000)
"""
)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this is glibc's malloc only")
@pytest.mark.parametrize(("wanted", "is_kept"), [(None, "True"), ("131072", "False")])
def test_freed_memory_is_kept_for_the_next_allocation(wanted, is_kept):
    """Two megabytes at the end of the heap stay there, unless the environment asks otherwise."""
    assert output(FREED, "MALLOC_TRIM_THRESHOLD_", wanted).splitlines()[-1] == is_kept


HOLES = """
import sys, time
from closecall.app.runtime.malloc import Trimmer

def resident():
    with open("/proc/self/statm") as fields:
        return int(fields.read().split()[1]) * 4096

kept = [bytearray(50_000) for _ in range(4000)]
full = resident()
del kept[::2]
trimmer = Trimmer(0.05 if sys.argv[1] == "often" else 60)
deadline = time.monotonic() + (20 if sys.argv[1] == "often" else 1)
while resident() > full - 80_000_000 and time.monotonic() < deadline:
    time.sleep(0.05)
print(resident() < full - 80_000_000)
trimmer.close()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this is glibc's malloc only")
@pytest.mark.parametrize(("pace", "is_given_back"), [("often", "True"), ("rarely", "False")])
def test_holes_go_back_to_the_system(pace, is_given_back):
    """Half of 200 MB, freed in pieces between what is kept: the system has it back once it was trimmed."""
    environment = child.environment() | {"PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", HOLES, pace]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == is_given_back
