"""Sizes of files, for people."""

from __future__ import annotations

import pytest

from closecall.core.files.sizes import bytes_in_words


@pytest.mark.parametrize(
    ("n_bytes", "expected"),
    [
        (0, "0 bytes"),
        (999.4, "999 bytes"),
        (999.7, "1 kB"),
        (1540, "1.54 kB"),
        (999_700, "1 MB"),
        (512_000, "512 kB"),
        (999_600_000, "1 GB"),
        (1.5e12, "1,500 GB"),
    ],
)
def test_a_number_of_bytes_has_three_digits(n_bytes: float, expected: str) -> None:
    """Never in the notation of scientists, and never a thousand of a unit that has a larger one."""
    assert bytes_in_words(n_bytes) == expected
