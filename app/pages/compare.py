"""The Compare page. Its views: strategies on one hyperplane, a race of strategies, and a blind comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from closecall.app.api.compare.hyperplane import HyperplaneComparison
from closecall.app.api.compare.lanes import Compared
from closecall.app.api.compare.race import USUAL_SPEED, LiveRace, keep_race, last_race
from closecall.app.components import COMPARE, RACE
from closecall.app.display import phrases as words
from closecall.app.display.strategy_labels import about, label_of
from closecall.app.pages.blind import blind
from closecall.app.pages.chosen import opened, pick_concept, put_into_address
from closecall.app.pages.fragment import fragment
from closecall.app.pages.markdown import literal
from closecall.app.pages.problems import show_problem
from closecall.app.pages.state import show_value, state
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession

VIEWS = {"hyperplane": "This hyperplane", "race": "The race", "blind": "Blind"}
"""Titles of the views, by their name in the address."""

FIRST = {1: "1 label per class first", 5: "5 labels per class first", 20: "20 labels per class first"}

SECONDS = {0.0: "no time per label", 0.5: "0.5 s per label", 1.5: "1.5 s per label", 5.0: "5 s per label"}
"""Texts of the choices for the time to label an item, by seconds.

Figure 3b of Jain et al. 2010 assumes 1 s per document and 5 s per image.
"""


def main() -> None:
    """Open the project and session that the address names; compare strategies for the session's question."""
    if (found := opened()) is None:
        return
    project, session = found
    with st.container(key="comparing", horizontal=True, vertical_alignment="center"):
        view = pick_view()
        st.space("stretch")
        if view == "race":
            kept = last_race(session)
            n_first = 5 if kept is None else kept[1].n_first  # after a reload, the race is still there
            pick("First labels", FIRST, "race-first", default=n_first, width=206)
            pick("Seconds per label", SECONDS, "race-seconds", default=1.5, width=160)
        elif view == "hyperplane":
            pick_more(comparison_of(session).compared)
        pick_concept(project, session, archived=view != "blind")
    with st.container(key="compare"):
        if view == "race":
            show_race(session)
        elif view == "blind":
            blind(project, session)
        else:
            comparison_of(session).renew()
            show_hyperplane(session)


def pick_view() -> str:
    """Show the picker of views and return the chosen view. The page's address stores the choice."""

    def picked() -> None:
        # A press on the selected view would deselect it.
        view = state["compare-view"] or state["compared"]
        state["compared"] = view
        put_into_address("view", view)

    asked = st.query_params.get("view") or state.get("compared")
    view = asked if asked in VIEWS else "hyperplane"
    put_into_address("view", view)
    state["compared"] = view
    st.segmented_control(
        "View",
        list(VIEWS),
        format_func=VIEWS.__getitem__,
        default=show_value("compare-view", view),
        key="compare-view",
        on_change=picked,
        label_visibility="collapsed",
    )
    return view


def pick(label: str, options: dict[Any, str], key: str, *, default: Any, width: int) -> None:
    """Show a picker of a number; the choice is kept while the tab is open."""
    kept = f"kept {key}"

    def picked() -> None:
        state[kept] = state[key]

    shown = show_value(key, state.setdefault(kept, default))
    st.selectbox(
        label,
        list(options),
        list(options).index(shown),
        format_func=options.__getitem__,
        key=key,
        on_change=picked,
        label_visibility="collapsed",
        width=width,
    )


def pick_more(compared: Compared) -> None:
    """Show the picker of strategies that are compared only on request, with what it costs to prepare them."""
    offered = compared.offered
    if not offered:
        return

    def picked() -> None:
        compared.added = tuple(name for name in offered if state[f"compare {name}"])

    with st.popover("More strategies", key="more-strategies"):
        for name, cost in offered.items():
            key = f"compare {name}"
            takes = f"Takes {cost} to prepare." if cost else ""
            st.checkbox(label_of(name), show_value(key, name in compared.added), key=key, on_change=picked)
            st.caption(literal(f"{about(name)} {takes}".strip()))


def comparison_of(session: LabelingSession) -> HyperplaneComparison:
    """Return the browser tab's comparison, which is kept while other pages are shown."""
    found: HyperplaneComparison | None = state.get(("comparison", session.id))
    if found is None or not found.is_of(session.project):
        found = state["comparison", session.id] = HyperplaneComparison(session)
    return found


@fragment
def show_hyperplane(session: LabelingSession) -> None:
    """Show the strategies' measurements so far; the browser polls while more are coming."""
    key = f"compare-{session.id}"
    sent = state.get(key, {})
    comparison = comparison_of(session)
    try:
        if sent.get("again"):
            comparison.renew(again=True)
        page = comparison.page()
    except (InputError, StorageError) as error:
        show_problem(error, waits=True)
    else:
        # The beat changes the payload. With an unchanged payload, Streamlit would not run the component, and
        # the component would stop polling.
        COMPARE.show({**page, "beat": sent.get("beat")}, key=key)


@fragment
def show_race(session: LabelingSession) -> None:
    """Handle the browser's commands and show the race; the browser gets the rounds from ``/race``."""
    key = f"race-{session.id}"
    sent = state.get(key, {})
    shown: dict[str, Any] = {"label_seconds": state["kept race-seconds"], "beat": sent.get("beat")}
    try:
        race = race_of(session, again=_does(sent) == "again")
        if race is None:
            shown |= {"race": None, "is_coming": True, "message": preparation(session)}
        else:
            obey(race, sent)
            shown |= race.about() | {"absent": Compared(session).absent(race.words)}
    except InputError as error:
        shown |= {
            "race": None,
            "is_coming": False,
            "message": "No race is possible here",
            "trouble": str(error),
        }
    RACE.show(shown, key=key)


def race_of(session: LabelingSession, *, again: bool) -> LiveRace | None:
    """Return the session's race. If the settings are new or `again` is true, return a new race.

    If a new race needs indexes that are still being built, return None.
    """
    settings = session.project.description, state["kept race-first"]
    before, race = last_race(session) or (None, None)
    if before == settings and not again:
        return race
    strategies = Compared(session).settled()
    if session.project.pool is None or strategies is None:
        return None
    run = race.run + 1 if race is not None and before == settings else 0
    speed = USUAL_SPEED if race is None else race.speed
    race = LiveRace(session, strategies, n_first=settings[1], run=run, speed=speed)
    keep_race(session, settings, race)
    return race


def obey(race: LiveRace, sent: dict[str, Any]) -> None:
    """Handle the browser's commands to the race."""
    does = _does(sent)
    if does in ("start", "again"):
        race.start()
    elif does == "step":
        race.step()
    elif does == "pause":
        race.pause()
    elif does == "speed":
        race.set_speed(sent["command"].get("value"))


def _does(sent: dict[str, Any]) -> str | None:
    command = sent.get("command")
    return command.get("does") if isinstance(command, dict) else None


def preparation(session: LabelingSession) -> str:
    """Return a phrase that says what the race is waiting for."""
    compared = Compared(session)
    if session.project.pool is None:
        progress = session.project.build_progress()
        return words.short_growth(progress) if progress else "The pool has no items yet"
    return next(
        (compared.preparation(word, named=True) for word in compared.awaited()), "The race is starting"
    )


main()
