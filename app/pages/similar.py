"""The page Find similar, which shows items similar to an item, an upload, or all items answered yes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from closecall.app.api.submit import take
from closecall.app.components import SIMILAR, answers_of
from closecall.app.indexes.costs import brief_of
from closecall.app.indexes.settings import EXACT
from closecall.app.pages.alike import IN_ADDRESS, TAKEN_UP
from closecall.app.pages.chosen import WAITING, opened, person_at, pick_concept, put_into_address
from closecall.app.pages.fragment import fragment
from closecall.app.pages.problems import show_or_keep, show_problem
from closecall.app.pages.similar_settings import more
from closecall.app.pages.state import show_value
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.app.sessions.registry import OpenProject
    from closecall.app.sessions.similar.session import SimilarSession

VIEWS = {"original": "Original", "learned": "Learned", "both": "Side by side"}


def main() -> None:
    """Open the project and session that the address names; show items similar to the query in the address."""
    if (found := opened()) is None:
        return
    project, session = found
    similar = st.session_state[WAITING] = project.similar_to(session)
    begin(similar)
    with st.container(key="searching", horizontal=True, vertical_alignment="center"):
        pick_concept(project, session)
        pick_view(similar)
        st.space("stretch")
        if similar.recipe.structure != EXACT and similar.view != "learned":
            pick_codes(project, similar)
        pick_method(project, similar)
        if similar.recipe.structure != EXACT and (pool := project.pool) is not None:
            more(project, similar, len(pool))
    with st.container(key="card"):
        show_similar(project, similar)


def begin(similar: SimilarSession) -> None:
    """Read the query from the address.

    This is done only once, because later requests may have an outdated address.
    """
    if st.session_state.get(TAKEN_UP) == similar.id:
        return
    st.session_state[TAKEN_UP] = similar.id
    try:
        similar.go_to(st.query_params.get(IN_ADDRESS))
    except InputError as error:
        show_problem(error)
        st.query_params.pop(IN_ADDRESS, None)
        similar.go_to(None)


def pick_view(similar: SimilarSession) -> None:
    """Show the picker of the metric."""

    def picked() -> None:
        similar.set_view(st.session_state["metric"])

    st.segmented_control(
        "Metric",
        list(VIEWS),
        format_func=VIEWS.__getitem__,
        default=show_value("metric", similar.view),
        key="metric",
        on_change=picked,
        required=True,
        label_visibility="collapsed",
    )


def pick_method(project: OpenProject, similar: SimilarSession) -> None:
    """Show the picker of the search method."""
    _pick(
        "Search method", "method", project.similar.methods, similar.recipe.structure, similar.set_method, 304
    )


def pick_codes(project: OpenProject, similar: SimilarSession) -> None:
    """Show the picker of the hash family, with the cost of computing each family's codes."""
    n_rows = 0 if project.pool is None else len(project.pool)

    def cost(name: str) -> str:
        recipe = similar.recipe
        if name != recipe.family:
            recipe = project.similar.with_suitable_kernel(recipe.of(name))
        is_built = project.similar.seconds(recipe, similar.session.concept) is not None
        time = None if is_built else project.similar.build_time(recipe, similar.session.concept)
        return brief_of(recipe, max(n_rows, 1), time)

    costs = {name: f"{label}: {cost(name)}" for name, label in project.similar.codes.items()}
    _pick("Codes", "codes", costs, similar.recipe.family, similar.set_codes, 320)


def _pick(
    label: str, key: str, options: Mapping[str, str], chosen: str, choose: Callable[[str], None], width: int
) -> None:
    """Show a picker of an option; `options` maps names to display names."""
    st.selectbox(
        label,
        list(options),
        list(options).index(show_value(key, chosen)),
        format_func=options.__getitem__,
        key=key,
        on_change=lambda: choose(st.session_state[key]),
        label_visibility="collapsed",
        width=width,
    )


@fragment
def show_similar(project: OpenProject, similar: SimilarSession) -> None:
    """Handle the browser's answers and requests, and show the result."""
    key = f"{SIMILAR.name}-{similar.id}"
    sent = st.session_state.get(key, {})

    def card() -> dict[str, Any]:
        similar.ask(sent.get("asked"))
        similar.upload(sent.get("upload"))
        shown = take(project, similar, answers_of(sent), person_at(project))
        if similar.like is not None:
            put_into_address(IN_ADDRESS, similar.like.word)
        return {**shown, "beat": sent.get("beat")}

    pool = project.pool
    with st.spinner("Searching…" if pool is None else f"Searching {len(pool):,} items…"):
        show_or_keep(SIMILAR, key, card)


main()
