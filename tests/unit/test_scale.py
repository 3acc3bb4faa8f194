from __future__ import annotations

import pytest

from tests import scale

pytest_plugins = ["pytester"]

SUITE = """
    import pytest
    from tests.scale import scaled, thorough

    @pytest.mark.parametrize("side", ["a", thorough("b")])
    def test_side(side): pass

    @pytest.mark.thorough
    def test_thorough(): pass

    @pytest.mark.long
    def test_long(): pass

    @pytest.mark.parametrize("number", range(scaled(quick=1, all=2, long=4)))
    def test_numbers(number): pass
"""

QUICK = {"test_side[a]", "test_numbers[0]"}
ALL = QUICK | {"test_side[b]", "test_thorough", "test_numbers[1]"}
LONG = ALL | {"test_long", "test_numbers[2]", "test_numbers[3]"}


@pytest.mark.parametrize(("name", "expected"), [("quick", QUICK), ("all", ALL), ("long", LONG)])
def test_each_scale_runs_what_the_one_before_it_runs_and_more(name, expected, pytester, monkeypatch):
    """No test falls between the scales, and a larger one leaves nothing out that a smaller one runs."""
    monkeypatch.setattr(scale, "current", name)
    items = pytester.getitems(SUITE)
    assert {item.name for item in items if not scale.left_out(item)} == expected
