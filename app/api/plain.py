"""Labeling with Streamlit's own widgets.

By the time a button press reaches the server, the server may already have selected another item. A press
therefore counts for the item that was shown when the button was drawn. The answer's id is created when the
button is drawn, too, so that pressing the button twice stores only one answer.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from closecall.app.api.cards import card_of
from closecall.app.api.submit import take
from closecall.app.display.phrases import as_sentence
from closecall.core.errors import InputError
from closecall.storage import StorageError, new_id

if TYPE_CHECKING:
    from closecall.app.projects.roles import Person
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject

SETTLE_SECONDS = 0.3
"""A press within this many seconds of the drawing of the card, or of the last press, is ignored.

Nobody can have judged the image so soon; the press may come from a key that is held down.
"""


@dataclass(eq=False)
class Drawn:
    """The widgets that show one card: when they were sent, and whether one was pressed.

    Parameters
    ----------
    card : dict
        The card that they show.
    answer_id, undo_id : str
        Ids under which an answer or an undo is stored.
    at : float
        Monotonic time in seconds at which all widgets had been sent. Before that, the time at which drawing
        began.
    is_sent : bool
        Whether all widgets have been sent.
    is_done : bool
        Whether a widget was pressed and its answer is settled: stored, or refused for good.
    """

    card: dict[str, Any]
    answer_id: str = field(default_factory=new_id)
    undo_id: str = field(default_factory=new_id)
    at: float = field(default_factory=lambda: time.monotonic())
    is_sent: bool = False
    is_done: bool = False

    def sent(self) -> None:
        """Record that all widgets have been sent to the browser."""
        if not self.is_sent:
            self.is_sent, self.at = True, time.monotonic()

    @property
    def last(self) -> dict[str, Any] | None:
        """The answer that the undo button takes back, or None."""
        strip: list[dict[str, Any]] = self.card["strip"]
        return max(strip, key=itemgetter("seq"), default=None)

    def shows_the_same_as(self, card: dict[str, Any]) -> bool:
        """Return whether `card` has the same item and the same last answers as the card that is shown."""
        return self._what(self.card) == self._what(card)

    @staticmethod
    def _what(card: dict[str, Any]) -> tuple[Any, ...]:
        return card["item"] and card["item"]["selection"], [entry["answer_id"] for entry in card["strip"]]


class PlainCard:
    """A labeling session shown with Streamlit's own widgets in one browser window.

    Parameters
    ----------
    project : OpenProject
    session : LabelingSession
    person : Person
    """

    def __init__(self, project: OpenProject, session: LabelingSession, person: Person) -> None:
        self._project = project
        self._session = session
        self._person = person
        self._drawn: Drawn | None = None
        self._pressed_at = -math.inf
        self._unacknowledged: dict[str, Any] | None = None  # an undo that may or may not be stored
        self.message = ""

    def is_of(self, session: LabelingSession) -> bool:
        """Return whether the card shows this `LabelingSession` object, not an earlier one."""
        return self._session is session

    def draw(self) -> Drawn:
        """Return the card to draw: the same object as before if nothing has changed.

        If it is unknown whether the last undo was stored, the undo is first sent again. The annotator may not
        be able to repeat it, because the new card may have no button for it.
        """
        if self._unacknowledged is not None:
            self._send(self._unacknowledged)
        card = card_of(self._session)
        if self._drawn is None or self._drawn.is_done or not self._drawn.shows_the_same_as(card):
            self._drawn = Drawn(card)
        return self._drawn

    def press(self, drawn: Drawn, word: str) -> None:
        """Handle a press of a button of `drawn`: `word` is an answer or "undo".

        If the answer is refused or can't be stored, `message` says why.
        """
        now = time.monotonic()
        before, self._pressed_at = max(drawn.at, self._pressed_at), now
        if drawn.is_done or now - before < SETTLE_SECONDS:
            return
        answer = self._undo(drawn) if word == "undo" else self._answer(drawn, word)
        if answer is None:
            return
        drawn.is_done = self._send(answer | {"browser_time": int(1000 * time.time())})

    def _send(self, answer: dict[str, Any]) -> bool:
        """Send the answer; return whether it is settled: stored, or refused for good."""
        sent = answer | {"session": self._session.id}
        try:
            settled = take(self._project, self._session, [sent], self._person)
        except (InputError, StorageError) as error:
            settled = {"acked": [], "refused": [], "message": as_sentence(str(error))}
        is_settled = bool(settled["acked"] or settled["refused"])
        self._unacknowledged = None if is_settled or answer["answer"] != "undo" else answer
        reasons = [refusal["reason"] for refusal in settled["refused"]]
        self.message = " ".join(reasons) or settled["message"] or ""
        return is_settled

    def _answer(self, drawn: Drawn, word: str) -> dict[str, Any] | None:
        item = drawn.card["item"]
        if item is None:
            return None
        return {
            "id": drawn.answer_id,
            "item": item["id"],
            "selection": item["selection"],
            "answer": word,
            "time_taken_ms": int(1000 * (time.monotonic() - drawn.at)),
        }

    def _undo(self, drawn: Drawn) -> dict[str, Any] | None:
        if drawn.last is None:
            return None
        return {
            "id": drawn.undo_id,
            "item": drawn.last["item"],
            "answer": "undo",
            "undoes": drawn.last["answer_id"],
        }
