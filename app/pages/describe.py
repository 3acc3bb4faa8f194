"""The page on which owners have other features of the images computed, and choose the features in use.

A set of features of all images is called a description (`app.projects.descriptions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from closecall.app.display import phrases as words
from closecall.app.pages.chosen import opened, person_at
from closecall.app.pages.fragment import fragment
from closecall.app.pages.image_model import choose_features
from closecall.app.pages.markdown import literal
from closecall.app.pages.problems import show_problem
from closecall.app.projects.descriptions import cost, planned
from closecall.app.sessions.workspace import current
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.projects.descriptions import Description
    from closecall.app.projects.image_models import ChosenFeatures
    from closecall.app.sessions.registry import OpenProject

WATCH_SECONDS = 2


def main() -> None:
    """Open the project that the address names; show owners its descriptions and the form for a new one."""
    if (found := opened()) is None:
        return
    project, _ = found
    with st.container(key="describe", width=640):
        st.title("Describe again", anchor=False)
        if not person_at(project).is_owner:
            st.markdown("Only owners can describe the images again.")
            return
        st.markdown(
            "A better description finds what you look for with fewer answers. All labels stay, "
            "and you can return to an earlier description at any time."
        )
        watching = WATCH_SECONDS if project.descriptions.being_built() else None
        fragment(show_descriptions, run_every=watching)(project)
        st.header("Another description", anchor=False)
        another(project)
        st.page_link("label.py", label="Back to labeling")


def show_descriptions(project: OpenProject) -> None:
    """Show each description, its state, and the buttons for what can be done with the description."""
    building = project.descriptions.being_built()
    known = project.descriptions.all()
    for one in known:
        show_description(project, one, is_built=one.name in building)
    for name in building.keys() - {one.name for one in known}:
        st.progress(0.0, text=f"{literal(name)} is being started")
    shown = frozenset(building)
    if st.session_state.get("being described", shown) != shown:
        st.session_state["being described"] = shown
        st.rerun()
    st.session_state["being described"] = shown


def show_description(project: OpenProject, one: Description, *, is_built: bool) -> None:
    """Show a description."""
    with st.container(key=f"described-{one.shown_name}", horizontal=True, vertical_alignment="center"):
        about = f"{one.n_features:,} features of {words.counted(one.items, 'item')}"
        st.markdown(f"**{literal(one.label)}**  \n{about}", width="stretch")
        name = one.shown_name
        if one.name == project.description:
            st.markdown("In use")
        elif is_built:
            if st.button("Stop", key=f"stop-{name}"):
                project.descriptions.stop(one.name, by=person_at(project))
                st.rerun()
        elif one.problem is None:
            if st.button("Use", key=f"use-{name}", type="primary"):
                use(project, one.name)
        elif one.word and st.button("Continue", key=f"continue-{name}"):
            build(project, one.word)
    progress = project.descriptions.being_built().get(one.name) if is_built else None
    if progress is not None:
        st.progress(words.done_share(progress), text=words.growth(progress))
    elif problem := project.descriptions.problem(one.name) or one.problem:
        st.caption(literal(problem))


def another(project: OpenProject) -> None:
    """Show the form for another description, with its cost."""
    known = project.descriptions.all()
    has_gist = any(one.feature_kind == "gist" for one in known)
    features = choose_features(current(), offers_gist=not has_gist)
    if features.model is None and has_gist:
        return
    word = features.model or "gist"
    try:
        plan = planned(project.folder, word, features.provider)
        n_bytes, seconds = cost(plan, features.dtype)
    except InputError as error:
        st.caption(literal(words.as_sentence(str(error))))  # nothing was asked for yet
        return
    if any(one.name == plan.name and one.problem is None for one in known):
        st.caption("The images are described by it already.")
        return
    time = f", and takes {words.about(seconds)}" if seconds >= 1 else ""
    st.caption(f"It needs {words.bytes_in_words(n_bytes)} of disk space{time}. You can label meanwhile.")
    if st.button("Describe the images", type="primary", width="stretch"):
        build(project, word, features)


def build(project: OpenProject, word: str, features: ChosenFeatures | None = None) -> None:
    """Start to build a description, or continue it."""
    try:
        provider, dtype = (features.provider, features.dtype) if features else (None, None)
        project.descriptions.build(word, provider, dtype, by=person_at(project))
    except InputError as error:
        show_problem(error)
    else:
        st.rerun()


def use(project: OpenProject, name: str) -> None:
    """Put a description to use."""
    try:
        with st.spinner("Changing the description…"):
            current().use_description(project.key, name, by=person_at(project))
    except (InputError, StorageError) as error:
        show_problem(error)
    else:
        st.rerun()


main()
