"""The blind view of the Compare page: two strategies take turns, and their names are hidden until the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from closecall.app.api.submit import take
from closecall.app.api.verdict import verdict
from closecall.app.components import LABEL, VERDICT, answers_of
from closecall.app.display.phrases import counted
from closecall.app.display.strategy_labels import all_labels, name_of
from closecall.app.pages.browser import browser_at_page
from closecall.app.pages.chosen import person_at
from closecall.app.pages.fragment import fragment
from closecall.app.pages.markdown import literal
from closecall.app.pages.problems import show_problem, shown_or_kept
from closecall.app.pages.state import state
from closecall.app.sessions.blind.begin import begin, current, offer
from closecall.app.sessions.blind.comparison import LEAST_TURNS, BlindComparison
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject

RIVAL = "random"
"""Default opponent of the strategy in use. If that strategy is random, the default is the full scan."""


def blind(project: OpenProject, session: LabelingSession) -> None:
    """Show the comparison in progress, the result of the last comparison, or the form that starts one."""
    try:
        found = current(session)
        if found is None or state.get(("another", session.concept.record.id)):
            offer_one(session, before=found)
        elif found.is_told:
            show_verdict(session, found)
        else:
            show_turns(project, session, found)
    except (InputError, StorageError) as error:
        show_problem(error, waits=True)


def offer_one(session: LabelingSession, before: BlindComparison | None) -> None:
    """Show the form for a new comparison and, if `before` is not None, a button that returns to `before`."""
    offered, labels = offer(session), all_labels(session.strategy)
    question = session.concept.record
    with st.container(key="blind-offer", width=720):
        st.title("Which strategy teaches more?")
        st.markdown(
            "Two strategies take turns in choosing what you label, and you won’t know which. Each learns "
            "only from the answers to its own choices; at the end you see which taught more."
        )
        if offered.problem:
            st.caption(literal(offered.problem))
            return
        used = name_of(session.strategy)
        rival = RIVAL if used != RIVAL else "exhaustive"
        keys = f"blind-one-{used}", f"blind-other-{used}"
        with st.container(horizontal=True, vertical_alignment="bottom"):
            one, other = (
                st.selectbox(label, list(labels), list(labels).index(name), labels.__getitem__, key)
                for label, name, key in zip(("One", "The other"), (used, rival), keys, strict=True)
            )
        if offered.is_judged_by_truth:
            st.caption(
                f"Both are tested on the held-out items, whose truth is known. Each needs at least "
                f"{LEAST_TURNS} answers; more give a clearer result."
            )
        else:
            st.caption(
                f"Too few items of known truth are held out, so one item in three is drawn at random, and "
                f"both are tested on your answers about these. The result needs at least {LEAST_TURNS} "
                f"answers for each strategy and {LEAST_TURNS} about random items; more make it clearer."
            )
        if offered.first:
            st.caption(f"Both begin with {offered.first} yes and {offered.first} no of your labels.")
        else:
            st.caption(
                "Both begin with random items, until there is a yes and a no. These answers don’t count."
            )

        def start() -> None:
            state.pop(("another", question.id), None)
            names = [state[key] for key in keys]  # current choices; `one` and `other` may be outdated
            words = [session.strategy if name == used else name for name in names]
            try:
                begin(session, words)
            except (InputError, StorageError) as error:
                state["blind trouble"] = str(error)

        def go_back() -> None:
            state.pop(("another", question.id), None)

        with st.container(horizontal=True):
            st.button("Begin", type="primary", on_click=start, disabled=one == other)
            if before is not None:
                st.button(
                    "Back to the last one" if before.is_told else "Continue the last one", on_click=go_back
                )
        if trouble := state.pop("blind trouble", None):
            show_problem(trouble)


@fragment
def show_turns(project: OpenProject, session: LabelingSession, found: BlindComparison) -> None:
    """Show the card, and above it the number of answers that are still needed."""
    for side in found.sides:
        side.use_in(browser_at_page())
    key = f"blind-{found.id}"
    sent: dict[str, Any] = state.get(key, {})
    card = shown_or_kept(key, lambda: take(project, found, answers_of(sent), person_at(project)))
    is_early = found.wanted > 0
    with st.container(key="blind-turns", horizontal=True, vertical_alignment="center"):
        if is_early:
            st.caption(found.needs)
        else:
            st.caption("We can tell now; more answers give a clearer result.")
        st.space("stretch")
        again = st.button("Start again…", type="tertiary", on_click=offer_another, args=[session])
        st.button("Which chose better?", on_click=found.tell, disabled=is_early)
    if found.is_told or again:
        st.rerun()
    if card is not None:
        LABEL.show(card, key=key)


def show_verdict(session: LabelingSession, found: BlindComparison) -> None:
    """Reveal the strategies, and show which one chose better."""
    kept = ("verdict", found.id)
    if kept not in state:
        with st.spinner("Testing both classifiers on the same items…"):
            state[kept] = verdict(found)
    VERDICT.show(state[kept], key=f"verdict-{found.id}")

    def add() -> None:
        state["added", found.id] = found.add_to_question(session)

    with st.container(key="blind-after", horizontal=True, vertical_alignment="center"):
        st.button("Add these labels to the question", on_click=add)
        st.button("Compare again", on_click=offer_another, args=[session])
        added = state.get(("added", found.id))
        if added is not None:
            st.caption(
                f"Added {counted(added, 'label')}." if added else "The question already has all these labels."
            )


def offer_another(session: LabelingSession) -> None:
    """Show the form for a new comparison when the page runs next; the previous comparison is kept."""
    state["another", session.concept.record.id] = True
