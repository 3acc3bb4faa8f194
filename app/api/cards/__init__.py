"""Build cards. A card is the content of a labeling page, as JSON for the browser.

There is one module per kind of page. A view (`View`) is the server's state of a page. Classes of views are in
`app.sessions`; their methods store the answers that the browser sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from closecall.app.api.cards.adjudication import adjudication_card
from closecall.app.api.cards.blind import blind_card
from closecall.app.api.cards.classes import classes_card, classes_coming
from closecall.app.api.cards.grid import found_card, grid_card, lasso_card, predicted_card, word_card
from closecall.app.api.cards.label import label_card, label_coming
from closecall.app.api.cards.similar import similar_card
from closecall.app.projects.roles import OPERATOR, Person
from closecall.app.sessions.adjudication import Decisions
from closecall.app.sessions.answers import Outcome
from closecall.app.sessions.blind.comparison import BlindComparison
from closecall.app.sessions.classes import ClassSession
from closecall.app.sessions.grid import GridSession
from closecall.app.sessions.item_view import AHEAD_SECONDS
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.lasso import LassoSession
from closecall.app.sessions.name_search import FoundSession
from closecall.app.sessions.predicted import PredictedSession
from closecall.app.sessions.similar.session import SimilarSession
from closecall.app.sessions.word_search import WordSession

View = (
    LabelingSession
    | GridSession
    | FoundSession
    | WordSession
    | LassoSession
    | PredictedSession
    | SimilarSession
    | ClassSession
    | BlindComparison
    | Decisions
)
"""The view of a labeling page of any kind."""

_NOTHING_SENT = Outcome()


def card_of(view: View, outcome: Outcome = _NOTHING_SENT, *, wait: float = AHEAD_SECONDS) -> dict[str, Any]:
    """Return the current card of a view.

    Wait at most `wait` seconds in all for the items that would follow the possible answers. In the card,
    `acked` lists the ids of the answers that are on disk, and `refused` lists the answers that will never be
    stored, each with a reason.
    """
    match view:
        case LabelingSession():
            return label_card(view, outcome, wait)
        case GridSession():
            return grid_card(view, outcome)
        case FoundSession():
            return found_card(view, outcome)
        case WordSession():
            return word_card(view, outcome)
        case LassoSession():
            return lasso_card(view, outcome)
        case PredictedSession():
            return predicted_card(view, outcome)
        case SimilarSession():
            return similar_card(view, outcome)
        case ClassSession():
            return classes_card(view, outcome, wait)
        case BlindComparison():
            return blind_card(view, outcome)
        case Decisions():
            return adjudication_card(view, outcome)


def coming_of(view: LabelingSession | ClassSession, selection_id: str) -> dict[str, Any]:
    """Return the next item after each possible answer to a selection, as part of a card.

    If the selection is no longer in view, the part has no items.
    """
    part = label_coming(view) if isinstance(view, LabelingSession) else classes_coming(view)
    if part["selection"] == selection_id:
        return part
    return {"selection": selection_id, "next": {}, "pictures": {}, "next_is_coming": False}


def submit(view: View, answers: Sequence[Mapping[str, Any]], by: Person = OPERATOR) -> dict[str, Any]:
    """Store the browser's answers, and return the card with the outcome.

    Raises
    ------
    InputError
        If the view is for adjudication and the person is not an owner.
    StorageError
        If an answer can't be stored. Then none of the answers is stored.
    """
    if isinstance(view, Decisions):
        return card_of(view, view.store(answers, by))
    return card_of(view, view.store(answers))
