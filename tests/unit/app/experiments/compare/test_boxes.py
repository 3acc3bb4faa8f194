"""Box plots of the costs of strategies."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from closecall.app.experiments.compare.boxes import Cost, draw_costs
from closecall.app.experiments.compare.drawing import _tick_label
from closecall.app.experiments.compare.statistics import box


@pytest.mark.parametrize(
    ("low", "high"), [(1.2e-3, 3e-3), (3.1, 3.2), (0.4, 2.3), (1.1e-7, 5e-2), (1e-12, 1e3), (0.7, 0.7)]
)
def test_both_axes_have_numbers_where_they_belong(low, high):
    """However narrow or wide the range is: at least two, and so few that they can be read."""
    figure = Figure(figsize=(10, 3), layout="constrained")
    draw_costs(figure, {"random": Cost(box([low, high]), box([low, high]))})
    figure.draw_without_rendering()
    for axes in figure.axes:
        left, right = axes.get_xlim()
        labels = {
            tick: label.get_text()
            for tick, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        }
        assert 2 <= len(labels) <= 10
        assert all(left <= tick <= right for tick in labels)
        assert labels == {tick: _tick_label(tick) for tick in labels}


@pytest.mark.parametrize(
    ("tick", "label"), [(0.002, "0.002"), (1e-5, "10⁻⁵"), (5e-4, "5 · 10⁻⁴"), (20.0, "20"), (1e12, "10¹²")]
)
def test_ticks_are_written_as_numbers(tick, label):
    """Powers of ten, if other numbers would be long."""
    assert _tick_label(tick) == label
