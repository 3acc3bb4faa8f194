"""The labeling page: a toolbar, and the card with the item. An answer reruns only the card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from closecall.app.api.views import answered
from closecall.app.components import GRID, LABEL, answers_of
from closecall.app.display import phrases as words
from closecall.app.display.strategy_labels import about, all_labels, fitting, label_of, name_of
from closecall.app.pages.alike import offer_similar
from closecall.app.pages.chosen import (
    chosen_project,
    chosen_session,
    person_at,
    pick_concept,
)
from closecall.app.pages.demo import demo
from closecall.app.pages.find import keep_search, offer_find
from closecall.app.pages.fragment import fragment
from closecall.app.pages.http import way_of
from closecall.app.pages.label_settings import settings
from closecall.app.pages.label_view import chosen_view, is_one_at_a_time, pick_view
from closecall.app.pages.markdown import literal
from closecall.app.pages.plain import is_wanted as plain_is_wanted
from closecall.app.pages.plain import offer_plain, show_plain
from closecall.app.pages.problems import show_or_keep, show_problem
from closecall.app.pages.state import show_value, state
from closecall.app.pages.toolbar import fold_on_phones
from closecall.app.runtime import kernels
from closecall.app.sessions.classes import ClassSession
from closecall.app.sessions.grid import BatchSession
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.lasso import LassoSession
from closecall.app.sessions.name_search import FoundSession
from closecall.app.sessions.predicted import PredictedSession
from closecall.app.sessions.word_search import WordSession
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.api.cards import View
    from closecall.app.indexes.strategies import IndexState
    from closecall.app.sessions.registry import OpenProject

WATCH_SECONDS = 2


def main() -> None:
    """Open the project and session that the address names, and show the session's view."""
    try:
        project = chosen_project()
        session = chosen_session(project)
        view = chosen_view(project, session)
    except (InputError, StorageError) as error:
        show_problem(error, waits=True)
        st.page_link("start.py", label="Back to the projects")
        return
    with st.container(key="toolbar", horizontal=True, vertical_alignment="center"):
        fold_on_phones(f"{key_of(view)}-{session.id}")
        if not isinstance(view, ClassSession):
            pick_concept(project, session)
        if not (is_one_at_a_time(session) or plain_is_wanted()):
            pick_view(session, view)
            offer_find(project, session)
            offer_similar(project, view)
        settings(project, session, view)
        if not (plain_is_wanted() or isinstance(view, ClassSession)):
            demo(project, session)
        # With plain buttons, avoid reruns by timer, because a press can be lost during a rerun.
        is_still = plain_is_wanted() and project.pool is not None
        if not is_still and (
            project.build_progress() or project.is_build_stopped() or awaited_index(project, session)
        ):
            with st.container(key="growth"):
                watch(project, session, project.pool is not None)
        st.space("stretch")
        pick_strategy(project, session)
    with st.container(key="card"):
        if plain_is_wanted():
            show_plain(project, session)
        else:
            show_card(project, view)
            if view is session:
                offer_plain()


def pick_strategy(project: OpenProject, session: LabelingSession) -> None:
    """Show the picker of strategies, with a line about each. The strategy that fits the phase comes first."""
    labels = all_labels(session.strategy)
    costs = project.indexes.costs(labels)
    counts = session.concept.counts()
    first = fitting(session.strategy, yes=counts.yes, no=counts.no)
    names = sorted(labels, key=lambda name: name != first)  # otherwise in their order

    def caption(name: str) -> str:
        takes = f"Takes {costs[name]} to prepare." if name in costs else ""
        return literal(f"{about(name)} {takes}".strip())

    key = f"strategy, {first} fits"  # the browser sends the label, which differs for the one that fits

    def picked() -> None:
        session.set_strategy(state[key])

    shown = name_of(session.strategy)
    # The page runs when the panel is opened: since it ran last, answers may have led to another phase.
    label = f"Strategy: {labels.get(shown, shown)}"
    with st.popover(label, key="strategy-picker", width=304, on_change="rerun"):
        st.radio(
            "Query strategy",
            names,
            names.index(show_value(key, shown)),
            format_func=lambda name: f"{labels[name]} · fits now" if name == first else labels[name],
            captions=[caption(name) for name in names],
            key=key,
            on_change=picked,
            label_visibility="collapsed",
        )


def awaited_index(project: OpenProject, session: LabelingSession) -> IndexState | None:
    """Return the state of the strategy's index, or None if the index is ready or has failed."""
    index = project.indexes.state(session.strategy)
    return index if index.fitted is None and index.failure is None else None


@fragment(run_every=WATCH_SECONDS)
def watch(project: OpenProject, session: LabelingSession, had_items: bool) -> None:
    """Show the progress of compiling code, or of building the pool or an index; then rerun the page.

    The page also runs again when the pool gets its first items, because all controls are known only then. If
    the pool's build has stopped, owners can continue it; the card's message says why the build has stopped.
    """
    if not had_items and project.pool is not None:
        st.rerun()
    progress, index = project.build_progress(), awaited_index(project, session)
    compiled = kernels.share()
    if project.is_build_stopped():
        offer_to_continue(project)
    elif index is not None and compiled is not None:
        st.progress(compiled, text=words.engine(compiled))
    elif progress is not None:
        word = "item" if project.pool is None else project.pool.item_word
        st.progress(words.done_share(progress), text=words.short_growth(progress, word))
    elif index is not None:
        again = index.notice is not None
        text = words.preparation(label_of(session.strategy), index.share, again=again)
        st.progress(index.share, text=text)
    else:
        st.rerun()


def offer_to_continue(project: OpenProject) -> None:
    """Show how far the stopped build of the pool has come and, to owners, a button that continues it."""
    person, progress = person_at(project), project.build_progress()
    word = "item" if project.pool is None else project.pool.item_word
    done = f"No {word} is prepared yet" if progress is None else words.short_growth(progress, word)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(done)
        if person.is_owner:
            st.button("Continue", on_click=project.continue_build, kwargs={"by": person})


@fragment
def show_card(project: OpenProject, view: View) -> None:
    """Store the browser's answers, and show the next item or items."""
    component = GRID if isinstance(view, BatchSession) else LABEL
    key = f"{key_of(view)}-{view.id}"
    sent = state.get(key, {})

    def card() -> dict[str, Any]:
        if isinstance(view, FoundSession | WordSession):
            view.ask(sent.get("asked"))
        way = way_of(project, view)  # before the card, so that no change is missed
        shown = answered(project, view, answers_of(sent), person_at(project), check=sent.get("check"))
        if isinstance(view, FoundSession | WordSession):
            keep_search(view)
        return shown | {"http": way}

    show_or_keep(component, key, card)


def key_of(view: View) -> str:
    """Return a word for the kind of the view. The key of the view's component begins with this word."""
    if isinstance(view, BatchSession):
        own: dict[type, str] = {
            FoundSession: "found",
            WordSession: "words",
            LassoSession: "lasso",
            PredictedSession: "predicted",
        }
        return own.get(type(view), GRID.name)
    return "classes" if isinstance(view, ClassSession) else LABEL.name


main()
