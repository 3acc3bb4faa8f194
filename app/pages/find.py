"""Find items by name, by words, by predictions or in a lasso: a search's controls and address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from closecall.app.engine.model_predictions import ORDERS, Choosing
from closecall.app.pages.chosen import put_into_address
from closecall.app.pages.state import show_value
from closecall.app.sessions.word_search import WordSession, can_describe
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.lasso import LassoSession
    from closecall.app.sessions.name_search import FoundSession
    from closecall.app.sessions.predicted import PredictedSession
    from closecall.app.sessions.registry import OpenProject

IN_ADDRESS = "find"
"""Name of the address parameter that has the search text, which is empty before a text is entered."""

EXCLUDED = "not"
"""Address parameter of a search by words: a description of what the items should not show."""

WAY = "by"
"""Address parameter: `WORDS`, `PREDICTIONS` or `LASSO`; in a search by name, it is missing."""

WORDS = "words"

PREDICTIONS = "predictions"

LASSO = "lasso"

MODEL = "model"
"""Address parameter of a choice by predictions: the name of the model."""

ORDER = "order"
"""Address parameter of a choice by predictions: the order (`app.engine.model_predictions.ORDERS`)."""

ORDER_NAMES = {"doubtful": "Most doubtful", "differing": "Differ from the classifier"}

WHAT_TO_FIND = {"name": "part of their name", WORDS: "words", PREDICTIONS: "a model's predictions"}

TAKEN_UP = "found"
"""Key in Streamlit's session state: session and kind of the search that was last read from the address."""


def is_finding() -> bool:
    """Return whether the page shows the items of a search."""
    return _from_address(IN_ADDRESS) is not None


def is_by_words(project: OpenProject) -> bool:
    """Return whether the search is by words. Without a text model, such a search is by name instead."""
    return _from_address(WAY) == WORDS and can_describe(project.pool)


def is_in_lasso() -> bool:
    """Return whether the page shows the items in a lasso on the map."""
    return is_finding() and _from_address(WAY) == LASSO


def is_by_predictions() -> bool:
    """Return whether the page shows the items that a model's predictions choose."""
    return is_finding() and _from_address(WAY) == PREDICTIONS


def _from_address(name: str) -> str | None:
    """Return a parameter of the address. Read it only once: later requests may have an old address."""
    value: str | None = st.session_state.setdefault(name, st.query_params.get(name))
    return value


def chosen_search(
    project: OpenProject, session: LabelingSession
) -> FoundSession | WordSession | LassoSession | PredictedSession | None:
    """Return the search that the address names, or None if the search's lasso or predictions don't exist.

    Raises
    ------
    InputError
        If the text can't be searched for.
    """
    if is_in_lasso():
        return chosen_lasso(project, session)
    if is_by_predictions():
        return chosen_predictions(project, session)
    by_words = is_by_words(project)
    found = project.described(session) if by_words else project.found(session)
    taken_up, text = (found.id, by_words), _from_address(IN_ADDRESS) or ""
    if st.session_state.get(TAKEN_UP) != taken_up:
        st.session_state[TAKEN_UP] = taken_up
        try:
            if isinstance(found, WordSession):
                found.go_to(text, _from_address(EXCLUDED) or "")
            else:
                found.go_to(text)
        except InputError:
            close_find()
            raise
    keep_search(found)
    return found


def chosen_lasso(project: OpenProject, session: LabelingSession) -> LassoSession | None:
    """Return the session's view of a lasso. If no lasso was drawn in this session, end the search."""
    enclosed = project.enclosed(session)
    if enclosed.lasso is None:
        close_find()
        return None
    _put(IN_ADDRESS, "")
    _put(WAY, LASSO)
    return enclosed


def chosen_predictions(project: OpenProject, session: LabelingSession) -> PredictedSession | None:
    """Return the session's view of items chosen by predictions. If no model has any, end the search."""
    models = session.concept.predictions.models()
    if not models:
        close_find()
        return None
    view, model, order = project.predicted(session), _from_address(MODEL), _from_address(ORDER)
    before = view.by or Choosing(models[0])
    by = Choosing(
        next((one for one in (model, before.model) if one in models), models[0]),
        next((one for one in ORDERS if one == order), before.order),
    )
    view.choose_by(by)
    _put(IN_ADDRESS, "")
    _put(EXCLUDED, None)
    for name, value in {WAY: PREDICTIONS, MODEL: by.model, ORDER: by.order}.items():
        _put(name, value)
    return view


def keep_search(found: FoundSession | WordSession) -> None:
    """Keep the search, so that it is still there after a reload or a visit to another page."""
    _put(IN_ADDRESS, found.text)
    if isinstance(found, WordSession):
        _put(WAY, WORDS)
        _put(EXCLUDED, found.excluded or None)
    else:
        _put(EXCLUDED, None)
    for name in (MODEL, ORDER):
        st.query_params.pop(name, None)


def _put(name: str, value: str | None) -> None:
    """Set a parameter of the address, or remove it if `value` is None."""
    st.session_state[name] = value
    if value is None:
        st.query_params.pop(name, None)
    else:
        put_into_address(name, value)


def open_find() -> None:
    """Start an empty search."""
    st.session_state.pop(TAKEN_UP, None)
    _put(IN_ADDRESS, "")


def open_lasso() -> None:
    """Let the Label page show the items in the session's lasso when it runs next."""
    st.session_state.update({IN_ADDRESS: "", WAY: LASSO})


def close_find() -> None:
    """Return to the previous view. Keep the way to search for the next search, unless it is a lasso."""
    if is_in_lasso():
        _put(WAY, None)
    _put(IN_ADDRESS, None)
    _put(EXCLUDED, None)
    for name in (WAY, MODEL, ORDER):
        st.query_params.pop(name, None)


def offer_find(project: OpenProject, session: LabelingSession) -> None:
    """Show the button that starts or ends a search and, during a search, the ways to search."""
    ways = {"name": "By name"}
    if can_describe(project.pool):
        ways[WORDS] = "By words"
    models = session.concept.predictions.models()
    if models:
        ways[PREDICTIONS] = "By predictions"
    # The browser's scripts find the button that starts a search by this key.
    with st.container(key="end-find" if is_finding() else "find", width="content"):
        if is_in_lasso():
            st.button("Leave lasso", icon=":material/close:", on_click=close_find)
        elif is_finding():
            st.button("End search", icon=":material/close:", on_click=close_find)
        else:
            what = ", ".join(WHAT_TO_FIND[way] for way in ways)
            st.button("Find", icon=":material/search:", help=f"Find items by {what} (/)", on_click=open_find)
    if is_finding() and len(ways) > 1 and not is_in_lasso():
        pick_way(ways, WORDS if is_by_words(project) else PREDICTIONS if is_by_predictions() else "name")
    if is_by_predictions():
        pick_predictions(models)


def pick_way(ways: Mapping[str, str], way: str) -> None:
    """Show the choice between the ways to search; `way` is the present one."""

    def picked() -> None:
        wanted = st.session_state["way"]
        _put(WAY, None if wanted == "name" else wanted)

    st.segmented_control(
        "Find",
        list(ways),
        format_func=ways.__getitem__,
        default=show_value("way", way),
        key="way",
        on_change=picked,
        required=True,
        label_visibility="collapsed",
    )


def pick_predictions(models: Sequence[str]) -> None:
    """Show the choice between the models that have predictions, and the choice between orders of items."""

    def picked() -> None:
        for name in (MODEL, ORDER):
            _put(name, st.session_state.get(f"picked-{name}", _from_address(name)))

    st.segmented_control(
        "Order",
        ORDERS,
        format_func=ORDER_NAMES.__getitem__,
        default=show_value("picked-order", _from_address(ORDER)),
        key="picked-order",
        on_change=picked,
        required=True,
        label_visibility="collapsed",
    )
    if len(models) > 1:
        shown = show_value("picked-model", _from_address(MODEL))
        st.selectbox(
            "Model",
            models,
            models.index(shown),
            key="picked-model",
            on_change=picked,
            label_visibility="collapsed",
        )
