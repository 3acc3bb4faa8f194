"""Names of strategies and formats of numbers in the reports of comparisons."""

from __future__ import annotations

from collections.abc import Callable

from closecall.app.display.strategy_labels import label_of
from closecall.app.experiments.compare.peers import PEERS
from closecall.app.experiments.compare.statistics import Interval

RANDOM, SUBSAMPLE, EXHAUSTIVE = "random", "subsample", "exhaustive"


def lane_label(word: str) -> str:
    """Return the display name of a strategy or of another library.

    If `word` has parameters of the strategy, as "name:parameters", the display name includes the parameters.
    """
    if word in PEERS:
        return PEERS[word].distribution.removesuffix("-python")
    name, colon, params = word.partition(":")
    size = params.removeprefix("n_scored=")
    if name == SUBSAMPLE and size.isdigit():
        return f"{label_of(name)} of {int(size):,}"
    return f"{label_of(name)}, {params}" if colon else label_of(name)


def points(measured: Interval) -> str:
    """Format a difference in points with its interval: "+1.2 points (+0.4 to +2.0)"."""
    return f"{signed(measured.mean)} points{_ends(measured, signed)}"


def signed(number: float) -> str:
    """Format a number of points: "+1.2", "−0.3", "+0.0"."""
    return f"{round(number, 1) + 0.0:+.1f}".replace("-", "−")


def times(measured: Interval) -> str:
    """Format a ratio with its interval: "12 times (11 to 14)"."""
    return f"{figure(measured.mean)} times{_ends(measured, figure)}"


def figure(number: float) -> str:
    """Format a number with two or three digits: "0.034", "1.04", "2.3", "12", "1,234"."""
    if abs(number) >= 9.95:
        return f"{number:,.0f}"
    return f"{number:.2f}" if 0.5 <= abs(number) < 1.995 else f"{number:#.2g}"


def percent(number: str) -> str:
    """Append a percent sign after a no-break space: "53 %"."""
    return f"{number}\N{NO-BREAK SPACE}%"


def _ends(measured: Interval, shown: Callable[[float], str]) -> str:
    if measured.low is None or measured.high is None:
        return ""
    return f" ({shown(measured.low)} to {shown(measured.high)})"
