"""The labeling page: a toolbar, and the card with the item. An answer reruns only the card."""

from __future__ import annotations

import math
import time
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import streamlit as st

from closecall.app.api.views import answered
from closecall.app.components import GRID, LABEL, answers_of
from closecall.app.display import phrases as words
from closecall.app.display.strategy_labels import about, all_labels, fitting, label_of, name_of
from closecall.app.pages.alike import offer_similar
from closecall.app.pages.choose_class import NO_CLASS, choose_class
from closecall.app.pages.chosen import (
    chosen_project,
    chosen_session,
    person_at,
    pick_concept,
    put_into_address,
)
from closecall.app.pages.demo import demo
from closecall.app.pages.find import chosen_search, close_find, is_finding, keep_search, offer_find
from closecall.app.pages.fragment import fragment
from closecall.app.pages.http import way_of
from closecall.app.pages.markdown import literal
from closecall.app.pages.plain import is_wanted as plain_is_wanted
from closecall.app.pages.plain import offer_plain, show_plain
from closecall.app.pages.problems import show_or_keep, show_problem
from closecall.app.pages.shares import adjust_shares
from closecall.app.pages.state import AGAIN_SECONDS, state
from closecall.app.projects.config import MOST_PERSONS
from closecall.app.projects.positive_class import possible_classes
from closecall.app.projects.uploaded_images import note_on, uploadable, why_none
from closecall.app.runtime import kernels
from closecall.app.sessions.autopilot import is_autopilot
from closecall.app.sessions.classes import ClassSession, can_choose
from closecall.app.sessions.grid import SIZES, USUAL, BatchSession, GridSession
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
    from closecall.app.projects.roles import Person
    from closecall.app.sessions.registry import OpenProject

WATCH_SECONDS = 2

OVERLAP_PERCENT = (5, 10, 20, 50, 100)
"""Selectable shares, in percent, of rounds that show an item to a further annotator."""

MOST_SHOWN = 120
"""Maximum number of characters of a description in words in the settings."""

ADDED = "added"
"""Key in Streamlit's session state: the number of questions that were added in this browser tab."""

CLASSES = "classes"
"""Address parameter that requests the class view."""


def main() -> None:
    """Open the project and session of the address, and show the session's view."""
    try:
        project = chosen_project()
        session = chosen_session(project)
        view = chosen_view(project, session)
    except (InputError, StorageError) as error:
        show_problem(error, waits=True)
        st.page_link("start.py", label="Back to the projects")
        return
    with st.container(key="toolbar", horizontal=True, vertical_alignment="center"):
        fold_on_phones(session, view)
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


def fold_on_phones(session: LabelingSession, view: View) -> None:
    """Show the button that opens the toolbar on phones, where it is folded up at the lower edge.

    Another view or session folds the toolbar up again, because the button is then drawn again.
    """
    with st.container(key="tools"):
        st.html(
            f'<details id="tools-{key_of(view)}-{session.id}"><summary>'
            '<span class="m-shut">Tools</span><span class="m-open">Close</span></summary></details>'
        )


def chosen_view(project: OpenProject, session: LabelingSession) -> View:
    """Return the view that the address requests: one item, a grid, the classes, a search or a lasso.

    Raises
    ------
    InputError
        If the address has an invalid size of the grid, or a text that can't be searched for.
    """
    if is_finding() and not is_one_at_a_time(session) and (found := chosen_search(project, session)):
        return found
    if classes_are_wanted() and not is_one_at_a_time(session) and can_choose(session):
        show_classes(True)
        return project.classes(session)
    wanted = st.query_params.get("grid") or state.get("grid")
    if not wanted or is_one_at_a_time(session):
        return session
    if not (wanted.isdecimal() and len(wanted) < 9):
        raise InputError(f"grid in the address must be how many items a grid shows, got {wanted!r:.80}")
    grid = project.grid(session)
    grid.resize(int(wanted))
    show_in_grid(wanted)
    return grid


def is_one_at_a_time(session: LabelingSession) -> bool:
    """Return whether only one item can be shown, as on the plain card or in the autopilot's session."""
    return plain_is_wanted() or is_autopilot(session)


def show_in_grid(size: str | None) -> None:
    """Show a grid of this size when the page runs next; if `size` is None, show one item."""
    state["grid"] = size
    if size:
        put_into_address("grid", size)
    else:
        st.query_params.pop("grid", None)


def classes_are_wanted() -> bool:
    """Return whether the address requests the class view, or did before another page was opened."""
    return CLASSES in st.query_params or bool(state.get(CLASSES))


def show_classes(wanted: bool) -> None:
    """Show the class view when the page runs next; if not `wanted`, show one item."""
    state[CLASSES] = wanted
    if wanted:
        put_into_address(CLASSES, "1")
    else:
        st.query_params.pop(CLASSES, None)


def pick_view(session: LabelingSession, view: View) -> None:
    """Show the picker of views; none is selected while the items of a search are shown."""

    def picked() -> None:
        size = state.get("size", USUAL)
        show_in_grid(str(size) if state["view"] == "Grid" else None)
        show_classes(state["view"] == "Classes")
        close_find()

    shown = (
        "Grid" if isinstance(view, GridSession) else "Classes" if isinstance(view, ClassSession) else "One"
    )
    state["view"] = None if is_finding() else shown
    st.segmented_control(
        "Show",
        ["One", "Grid", "Classes"] if can_choose(session) else ["One", "Grid"],
        key="view",
        on_change=picked,
        required=not is_finding(),
        label_visibility="collapsed",
    )


def pick_strategy(project: OpenProject, session: LabelingSession) -> None:
    """Show the picker of strategies: each with a line about it, and the one that fits the phase first."""
    labels = all_labels()
    costs = project.indexes.costs(labels)
    counts = session.concept.counts()
    first = fitting(yes=counts.yes, no=counts.no)
    names = sorted(labels, key=lambda name: name != first)  # otherwise in their order

    def caption(name: str) -> str:
        takes = f"Takes {costs[name]} to prepare." if name in costs else ""
        return literal(f"{about(name)} {takes}".strip())

    def picked() -> None:
        session.set_strategy(state["strategy"])

    shown = state["strategy"] = name_of(session.strategy)
    with st.popover(f"Strategy: {labels.get(shown, shown)}", key="strategy-picker", width=304):
        st.radio(
            "Query strategy",
            names,
            format_func=lambda name: f"{labels[name]} · fits now" if name == first else labels[name],
            captions=[caption(name) for name in names],
            key="strategy",
            on_change=picked,
            label_visibility="collapsed",
        )


def awaited_index(project: OpenProject, session: LabelingSession) -> IndexState | None:
    """Return the state of the strategy's index, or None once the index is ready or has failed."""
    index = project.indexes.state(session.strategy)
    return index if index.fitted is None and index.failure is None else None


@fragment(run_every=WATCH_SECONDS)
def watch(project: OpenProject, session: LabelingSession, had_items: bool) -> None:
    """Show the progress of compiling code, or of building the pool or an index; then rerun the page.

    The page also runs again once the pool has its first items, because only then all controls are known.
    If the build has stopped, owners can continue it. `problem` says why it has stopped.
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
        shown = answered(project, view, answers_of(sent), person_at(project), check=sent.get("check"))
        if isinstance(view, FoundSession | WordSession):
            keep_search(view)
        return shown | {"http": way_of(project, view)}

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


def settings(project: OpenProject, session: LabelingSession, view: View) -> None:
    """Show the settings that are seldom needed while labeling."""
    # Another key makes another panel, which is closed.
    with st.popover("Settings", icon=":material/tune:", key=f"settings-{state.get(ADDED, 0)}"):

        def revisit() -> None:
            session.revisit_skipped(state["revisit"])

        state["revisit"] = session.include_skipped
        st.toggle("Show skipped items again", key="revisit", on_change=revisit)
        show_predictions(session)
        adjust_shares(session)
        pick_size(view)
        person = person_at(project)
        # These settings stay on the page for long. If there is no pool yet, it may later take examples.
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
    """Show the picker of the model whose predictions are shown with the items, if any have predictions."""
    models = session.concept.predictions.models()
    if not models:
        return

    def picked() -> None:
        session.shown_model = state["shown_model"]

    state["shown_model"] = session.shown_model if session.shown_model in models else None
    st.selectbox(
        "Show predictions of",
        models,
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
    """Show a switch: whether labeling starts with the items nearest to the last description in words."""
    described = session.concept.last_direction()
    if described is None:
        return

    def picked() -> None:
        session.withdraw_description(described, not state["use_description"], by=person)

    state["use_description"] = session.concept.direction() is not None
    text = shorten(words.described(described.texts, described.excluded), MOST_SHOWN, placeholder=" …")
    st.toggle(
        f"Start with “{literal(text)}”",
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

    state["persons"] = project.file.overlap
    st.number_input("People per item", 1, MOST_PERSONS, key="persons", on_change=picked)
    if project.file.overlap > 1:
        state["overlap"] = share
        st.selectbox(
            "Rounds for another opinion",
            sorted({*OVERLAP_PERCENT, share}),
            format_func="{} %".format,
            key="overlap",
            on_change=picked,
        )


def ask_once(project: OpenProject, person: Person) -> None:
    """Show the switch for asking about near-duplicates only once, if any have been found."""
    groups = project.duplicates.current
    if groups is None:
        return

    def picked() -> None:
        project.set_ask_once(state["ask_once"], by=person)

    state["ask_once"] = project.file.ask_once
    st.toggle(
        "Ask about near-duplicates only once",
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

    state["size"] = size
    st.selectbox("Items per grid", sorted({*SIZES, size}), key="size", on_change=picked)


def add_examples(session: LabelingSession, person: Person) -> None:
    """Show the form for example images."""
    with st.form("examples", clear_on_submit=True, border=False):
        files = st.file_uploader("Example images", type=uploadable(), accept_multiple_files=True)
        if note := note_on(session.project.pool):
            st.caption(literal(note))
        shows = st.segmented_control("They are examples of", ["no", "yes"], default="yes", required=True)
        if st.form_submit_button("Add examples", width="stretch") and files:
            try:
                session.add_examples([file.getvalue() for file in files], positive=shows == "yes", by=person)
            except (InputError, StorageError) as error:
                show_problem(error)
            else:
                st.rerun()


def add_question(project: OpenProject, person: Person) -> None:
    """Show the form for another question over the same pool; close the settings once it is added."""
    added = state.get(ADDED, 0)
    with st.form(f"another-{added}", border=False):
        question = st.text_input("Another question about these items", placeholder="Is it a leaf?")
        guideline = st.text_input("Guideline (optional)")
        positive = choose_class(project.class_names, "positive")
        if not st.form_submit_button("Add and label", width="stretch"):
            return
        if not question.strip():
            # The second press of a double click submits the form that the first one has replaced.
            if time.monotonic() - state.get("added at", -math.inf) > AGAIN_SECONDS:
                st.caption("Write the question first.")
            return
        possible = possible_classes(question, project.class_names) if positive is None else ()
        if possible:
            st.caption(f"Choose the class that means yes: {literal(words.some(possible))}, or {NO_CLASS}.")
            return
        try:
            made = project.add_concept(question, guideline=guideline, positive_class=positive, by=person)
        except (InputError, StorageError) as error:
            show_problem(error)
        else:
            state["concept", project.key], state["added at"] = made.id, time.monotonic()
            state[ADDED] = added + 1
            st.query_params.pop("session", None)
            st.rerun()


main()
