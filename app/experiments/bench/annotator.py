"""A simulated annotator who labels on the real page, knows the true classes, and uses only the keyboard.

The script ``watch.js`` runs in the page and records the answers. It receives each key press before the page
does. While an image is shown, the server prepares the next image for each possible answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, get_args

from closecall.app.api.plain import SETTLE_SECONDS
from closecall.app.sessions.grid import USUAL
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from playwright.sync_api import Page

Mode = Literal["paced", "burst", "fallback", "grid"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""Ways of answering.

"paced": at a fixed pace; "burst": quick series of key presses; "fallback": with plain buttons, at a fixed
pace; "grid": grids of images, at a fixed pace.
"""

BURST = 40
GAPS_MS = (0, 20, 50)
"""Milliseconds between the `BURST` key presses of a burst, for each of three bursts.

The three bursts are repeated until enough answers are given.
"""

N_PATIENT = 40
"""Number of further answers in the mode "paced", after the answers at the fixed pace.

Each of these answers is given as soon as all possible next images are ready.
"""

PATIENCE_MS = 60_000
WATCH = Path(__file__).with_name("watch.js")

Truth = Callable[[Sequence[int]], Sequence[bool]]
"""A function that takes ids of items and returns whether each item is positive."""


class Given(TypedDict):
    """An answer as recorded in the page.

    Parameters
    ----------
    item : int
    selection : str
        Id of the selection.
    picture : str
        ``data:`` URL of the painted image.
    answer : str
        "yes" or "no".
    """

    item: int
    selection: str
    picture: str
    answer: str


class Press(TypedDict):
    """A key press that submitted one answer or, in a grid, several.

    Parameters
    ----------
    answers : list of Given
    ms : float
        Milliseconds from the press until the next image is on the screen.
    waited : bool
        Whether the next image was not ready when the key was pressed.
    visibly : bool
        Whether the page showed that it was waiting for the next image.
    ahead_ms : float or None
        Milliseconds from painting the image until all possible next images were ready. None if the key was
        pressed before all of them were ready, or if the time was not recorded.
    """

    answers: list[Given]
    ms: float
    waited: bool
    visibly: bool
    ahead_ms: float | None


@contextmanager
def patience(mode: str, page: Page, picture: Path) -> Iterator[None]:
    """Save a screenshot and raise InputError if the page does not react for `PATIENCE_MS`."""
    from playwright.sync_api import Error
    from playwright.sync_api import TimeoutError as TookTooLong

    try:
        yield
    except TookTooLong:
        with suppress(Error):
            page.screenshot(path=picture)
        raise InputError(
            f"{mode}: the page did not react for {PATIENCE_MS // 1000} s; "
            "with --out the project has a server.log, and a page.png of what it showed"
        ) from None


class Annotator:
    """A simulated annotator in one browser window.

    Parameters
    ----------
    page : Page
        A new browser page.
    mode : Mode
    truth : callable
    pace : float
        Seconds that the annotator looks at an image or a grid. In the mode "fallback", the annotator looks
        for at least `SETTLE_SECONDS`, because the page with plain buttons ignores presses for this time after
        a new image.
    """

    def __init__(self, page: Page, mode: Mode, truth: Truth, pace: float) -> None:
        self._page = page
        self._mode = mode
        self._truth = truth
        self._pace = max(pace, SETTLE_SECONDS) if mode == "fallback" else pace
        page.add_init_script(path=WATCH)

    def open(self, url: str) -> None:
        """Open the labeling page, and wait until the index of its strategy is ready."""
        self._page.goto(url)
        self._wait()
        self._page.locator(".st-key-growth").wait_for(state="hidden", timeout=PATIENCE_MS)
        wanted = {"fallback": "plain=1", "grid": f"grid={USUAL}"}.get(self._mode)
        if wanted is not None:
            self._page.goto(f"{self._page.url}&{wanted}")
        self._wait()

    def label(self, n_answers: int) -> list[Press]:
        """Give at least `n_answers` answers; return the key presses that the page accepted, in order."""
        ways = {"burst": self._in_bursts, "grid": self._by_grids}
        if self._mode == "paced":
            self._page.evaluate("bench.noteWhatFollows()")
        ways.get(self._mode, self._one_by_one)(n_answers)
        self._wait()
        presses: list[Press] = self._page.evaluate("bench.presses")
        return presses

    def label_patiently(self, n_answers: int) -> list[Press]:
        """Give `n_answers` answers, each as soon as all possible next images are ready.

        Return the key presses that gave these answers.
        """
        before = self._page.evaluate("bench.presses.length")
        for _ in range(n_answers):
            self._page.wait_for_function("bench.page()?.allMayFollow", timeout=PATIENCE_MS)
            self._answer()
        self._wait()
        presses: list[Press] = self._page.evaluate(f"bench.presses.slice({before})")
        return presses

    def _one_by_one(self, n_answers: int) -> None:
        for _ in range(n_answers):
            self._look()
            self._answer()

    def _in_bursts(self, n_answers: int) -> None:
        while self._n_answers < n_answers:
            for gap in GAPS_MS:
                for press in range(BURST):
                    self._page.keyboard.press("ny"[press % 2])
                    self._page.wait_for_timeout(gap)
                self._wait()

    def _by_grids(self, n_answers: int) -> None:
        while self._n_answers < n_answers:
            self._look()
            self._mark()
            self._page.keyboard.press("Enter")

    def _mark(self) -> None:
        """Mark each positive item of the grid, then mark all remaining items as negative with one key."""
        for place, is_yes in enumerate(self._truth(self._items)):
            if is_yes:
                self._go_to(place)
                self._page.keyboard.press("y")
        self._page.keyboard.press("Shift+N")

    def _go_to(self, place: int) -> None:
        """Move the cursor to an image of the grid.

        If the image is less than a row's length away, press "n" for each image before it. This key marks an
        image as negative, and moves the cursor to the next image. Otherwise, use the arrow keys.
        """
        cursor, columns = self._page.evaluate("(({ cursor, columns }) => [cursor, columns])(bench.page())")
        down, right = divmod(place - cursor, columns)
        keys = ["ArrowDown"] * down + ["ArrowRight"] * right if down else ["n"] * right
        for key in keys:
            self._page.keyboard.press(key)

    def _answer(self) -> None:
        self._page.keyboard.press("y" if self._truth(self._items)[0] else "n")

    def _look(self) -> None:
        self._page.wait_for_function("bench.page()?.takesAnswers", timeout=PATIENCE_MS)
        self._page.wait_for_timeout(1000 * self._pace)

    def _wait(self) -> None:
        """Wait until the page accepts answers, all answers are saved, and the time of each press is known."""
        is_ready = (
            "page => page?.takesAnswers && page.isSaved && bench.presses.every(({ ms }) => ms !== null)"
        )
        self._page.wait_for_function(f"({is_ready})(bench.page())", timeout=PATIENCE_MS)

    @property
    def _items(self) -> list[int]:
        return [int(item) for item in self._page.evaluate("bench.page().items").split()]

    @property
    def _n_answers(self) -> int:
        return int(self._page.evaluate("bench.presses.flatMap(({ answers }) => answers).length"))
