"""Threads of a server share one arena of glibc, and what they free goes back to the system."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from closecall.app.runtime import child

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
    environment = {name: value for name, value in child.environment().items() if name != "MALLOC_ARENA_MAX"}
    if wanted is not None:
        environment["MALLOC_ARENA_MAX"] = wanted
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    words = [sys.executable, "-c", THREADS_ALLOCATE]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.count("<heap nr=") in arenas


LARGE_AGAIN = """
import ctypes
from closecall.app.cli.main import main

class Info(ctypes.Structure):
    _fields_ = [(str(place), ctypes.c_size_t) for place in range(10)]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
with_pages = lambda: getattr(libc.mallinfo2(), "4")

main(["pool", "--help"], standalone_mode=False)
large = bytearray(16_000_000)
del large
before = with_pages()
arrays = [bytearray(5_000_000) for _ in range(5)]
print(with_pages() - before >= 25_000_000)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this is glibc's malloc only")
@pytest.mark.parametrize(("wanted", "has_pages"), [(None, "True"), ("8000000", "False")])
def test_large_allocations_keep_pages_of_their_own(wanted, has_pages):
    """After a larger one was freed, too, unless the environment asks otherwise."""
    environment = {name: v for name, v in child.environment().items() if name != "MALLOC_MMAP_THRESHOLD_"}
    if wanted is not None:
        environment["MALLOC_MMAP_THRESHOLD_"] = wanted
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    words = [sys.executable, "-c", LARGE_AGAIN]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == has_pages


AGAIN_AND_AGAIN = """
import resource
from closecall.app.cli.main import main

main(["pool", "--help"], standalone_mode=False)
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytes(2_000_000)
before = faults()
for _ in range(50):
    len(b"x" * 2_000_000)
print(faults() - before < 5_000)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this is glibc's malloc only")
@pytest.mark.parametrize(("wanted", "is_kept"), [(None, "True"), ("131072", "False")])
def test_freed_memory_is_kept_for_the_next_allocation(wanted, is_kept):
    """Two megabytes fifty times take the pages of two megabytes, unless the environment asks otherwise."""
    environment = {name: v for name, v in child.environment().items() if name != "MALLOC_TRIM_THRESHOLD_"}
    if wanted is not None:
        environment["MALLOC_TRIM_THRESHOLD_"] = wanted
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    words = [sys.executable, "-c", AGAIN_AND_AGAIN]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == is_kept


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
