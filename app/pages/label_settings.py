"""The settings of the Label page, which are seldom needed while labeling."""

from __future__ import annotations

from textwrap import shorten
from typing import TYPE_CHECKING

import streamlit as st

from closecall.app.display import phrases as words
from closecall.app.pages.browser import browser_at_page
from closecall.app.pages.choose_class import NO_CLASS, choose_class
from closecall.app.pages.chosen import open_session, person_at
from closecall.app.pages.label_view import show_in_grid
from closecall.app.pages.markdown import literal
from closecall.app.pages.press import Press
from closecall.app.pages.problems import show_problem
from closecall.app.pages.shares import adjust_shares
from closecall.app.pages.state import show_value, state
from closecall.app.projects.config import MOST_PERSONS
from closecall.app.projects.positive_class import possible_classes
from closecall.app.projects.uploaded_images import note_on, uploadable, why_none
from closecall.app.sessions.classes import ClassSession
from closecall.app.sessions.grid import SIZES, USUAL, GridSession
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.api.cards import View
    from closecall.app.projects.roles import Person
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject

OVERLAP_PERCENT = (5, 10, 20, 50, 100)
"""Selectable shares, in percent, of rounds that show an item to a further annotator."""

MOST_SHOWN = 120
"""Maximum number of characters of a description in words in the settings."""

ADDED, LAST, PROBLEM = "added", "last question", "problem of the question"
"""Keys in Streamlit's session state: the number of questions that were added in this browser tab; the last
`Press` that added one; the reason why a question was not added, an error or a caption.
"""


def settings(project: OpenProject, session: LabelingSession, view: View) -> None:
    """Show the settings that are seldom needed while labeling."""
    # Adding a question changes the key. This makes a new panel, which is closed.
    with st.popover("Settings", icon=":material/tune:", key=f"settings-{state.get(ADDED, 0)}"):

        def revisit() -> None:
            session.revisit_skipped(state["revisit"])

        shown = show_value("revisit", session.include_skipped)
        st.toggle("Show skipped items again", shown, key="revisit", on_change=revisit)
        show_predictions(session)
        adjust_shares(session)
        pick_size(view)
        person = person_at(project)
        # These settings stay on the page for long. A pool that doesn't exist yet may later take examples.
        takes_examples = project.pool is None or why_none(project.pool) is None
        if person.is_owner and not isinstance(view, ClassSession) and takes_examples:
            add_examples(session, person)
        if person.is_owner:
            withdraw_description(session, person)
            set_overlap(project, person)
            ask_once(project, person)
            add_question(project, person)
        if person.is_owner and takes_examples:
            offer_description(project)


def show_predictions(session: LabelingSession) -> None:
    """If there are predictions, show the picker of the model whose predictions are shown with the items."""
    models = session.concept.predictions.models()
    if not models:
        return

    def picked() -> None:
        session.shown_model = state["shown_model"]

    shown = show_value("shown_model", session.shown_model if session.shown_model in models else None)
    st.selectbox(
        "Show predictions of",
        models,
        None if shown is None else models.index(shown),
        key="shown_model",
        on_change=picked,
        placeholder="no model",
        help="A prediction in view may sway your answer.",
    )


def offer_description(project: OpenProject) -> None:
    """Show the button that opens the page on which other features of the images are computed."""
    if st.button("Describe again…", help="By other features, such as a better model's.", width="stretch"):
        st.switch_page("describe.py", query_params={"project": project.key})


def withdraw_description(session: LabelingSession, person: Person) -> None:
    """Show the switch that lets labeling start with the items nearest to the last description in words."""
    described = session.concept.last_direction()
    if described is None:
        return

    def picked() -> None:
        session.withdraw_description(described, not state["use_description"], by=person)

    shown = show_value("use_description", session.concept.direction() is not None)
    text = shorten(words.described(described.texts, described.excluded), MOST_SHOWN, placeholder=" …")
    st.toggle(
        f"Start with “{literal(text)}”",
        shown,
        key="use_description",
        on_change=picked,
        help="Until there is a yes and a no, the items nearest to this description come first. "
        "Turn this off to withdraw the description.",
    )


def set_overlap(project: OpenProject, person: Person) -> None:
    """Show fields for the number of people per item and the share of rounds for another opinion."""
    share = round(100 * project.file.overlap_share)

    def picked() -> None:
        wanted = state.get("overlap", share)
        project.set_overlap(state["persons"], wanted / 100, by=person)

    shown = show_value("persons", project.file.overlap)
    st.number_input("People per item", 1, MOST_PERSONS, shown, key="persons", on_change=picked)
    if project.file.overlap > 1:
        shares = sorted({*OVERLAP_PERCENT, share})
        st.selectbox(
            "Rounds for another opinion",
            shares,
            shares.index(show_value("overlap", share)),
            format_func="{} %".format,
            key="overlap",
            on_change=picked,
        )


def ask_once(project: OpenProject, person: Person) -> None:
    """If near-duplicates have been found, show the switch for asking about each group of them only once."""
    groups = project.duplicates.current
    if groups is None:
        return

    def picked() -> None:
        project.set_ask_once(state["ask_once"], by=person)

    st.toggle(
        "Ask about near-duplicates only once",
        show_value("ask_once", project.file.ask_once),
        key="ask_once",
        on_change=picked,
        help=f"After an answer about one of several near-duplicates, the others are not selected. "
        f"{words.in_groups(groups.n_items, groups.n_groups)}",
    )


def pick_size(view: View) -> None:
    """Show the picker of the grid's size."""
    size = view.size if isinstance(view, GridSession) else state.get("size", USUAL)

    def picked() -> None:
        if isinstance(view, GridSession):
            show_in_grid(str(state["size"]))

    sizes = sorted({*SIZES, size})
    shown = sizes.index(show_value("size", size))
    st.selectbox("Items per grid", sizes, shown, key="size", on_change=picked)


def add_examples(session: LabelingSession, person: Person) -> None:
    """Show the form for example images."""
    with st.form("examples", clear_on_submit=True, border=False):
        files = st.file_uploader("Example images", type=uploadable(), accept_multiple_files=True)
        if note := note_on(session.project.pool):
            st.caption(literal(note))
        shows = st.segmented_control("They are examples of", ["no", "yes"], default="yes", required=True)
        if st.form_submit_button("Add examples", width="stretch") and files:
            try:
                session.add_examples(
                    [file.getvalue() for file in files],
                    names=[file.name for file in files],
                    positive=shows == "yes",
                    by=person,
                )
            except (InputError, StorageError) as error:
                show_problem(error)
            else:
                st.rerun()


def add_question(project: OpenProject, person: Person) -> None:
    """Show the form for another question over the same pool. After it is added, close the settings."""
    added = state.get(ADDED, 0)
    last: Press[LabelingSession] = state.setdefault(LAST, Press())
    fields = [f"{field}-{added}" for field in ("another", "guideline", "positive")]

    def submitted() -> None:
        entered = question, guideline, positive = (
            state.get(fields[0]) or "",
            state.get(fields[1]) or "",
            state.get(fields[2]),
        )
        if not question.strip():
            # The second press of a double click submits the form that has replaced the first one's.
            state[PROBLEM] = None if last.is_recent else "Write the question first."
            return
        possible = possible_classes(question, project.class_names) if positive is None else ()
        if possible:
            some = literal(words.some(possible))
            state[PROBLEM] = f"Choose the class that means yes: {some}, or {NO_CLASS}."
            return

        def made() -> LabelingSession:
            concept = project.add_concept(question, guideline=guideline, positive_class=positive, by=person)
            return project.session_of(person, None, concept.id, browser_at_page())

        try:
            session = last.once((project.key, *entered), made)
        except (InputError, StorageError) as error:
            state[PROBLEM] = error
        else:
            state[ADDED] = added + 1
            open_session(project, session)

    with st.form(f"another-{added}", border=False):
        st.text_input("Another question about these items", placeholder="Is it a leaf?", key=fields[0])
        st.text_input("Guideline (optional)", key=fields[1])
        choose_class(project.class_names, fields[2])
        st.form_submit_button("Add and label", width="stretch", on_click=submitted)
        problem = state.pop(PROBLEM, None)
        if isinstance(problem, str):
            st.caption(problem)
        elif problem is not None:
            show_problem(problem)
