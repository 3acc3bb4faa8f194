"""A card made of Streamlit's own widgets, for browsers that can't run the labeling card.

It is slower than the labeling card. Like the labeling card, it loses no answers.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import streamlit as st

from closecall.app.api.plain import Drawn, PlainCard
from closecall.app.pages.chosen import person_at
from closecall.app.pages.fragment import fragment
from closecall.app.pages.markdown import literal
from closecall.app.pages.problems import show_problem
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject

IN_ADDRESS = "plain"
"""Name of the address parameter that requests the plain card."""

ANSWERS = {"no": ("✕ No", "N"), "skip": ("» Skip", "S"), "yes": ("✓ Yes", "Y")}
TOOLS = {"undo": ("↶ Undo", "U"), "unsure": ("? Unsure", "M")}

BEFORE_FIRST = "The first items are being prepared…"
STOPPED = "No item can be shown now."
NO_MORE = "Every item so far has an answer. No more are being prepared."
BEFORE_MORE = "Every item so far has an answer. More are being prepared: load the page again to see them."

NO_REPEATS = """
<script>
  window.closecallRepeats ??= window.addEventListener("keydown", (event) => {
    if (!event.repeat || event.target.closest("input,textarea")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true) ?? true;
</script>
"""
"""Script that suppresses repeats of a held key. Without scripts, `PlainCard.press` ignores most repeats."""


def is_wanted() -> bool:
    """Return whether the address requests the plain card."""
    return IN_ADDRESS in st.query_params


def offer_plain() -> None:
    """Show a button that opens the plain card; the style sheet hides the button if the labeling card runs."""
    with st.container(key="offer-plain"):
        st.write("The labeling card does not start in this browser.")
        st.button("Use plain buttons instead", on_click=st.query_params.update, args=({IN_ADDRESS: "1"},))


@fragment
def show_plain(project: OpenProject, session: LabelingSession) -> None:
    """Show the item in view, and a button for each answer."""
    key = f"plain-{session.id}"
    if key not in st.session_state or not st.session_state[key].is_of(session):
        st.session_state[key] = PlainCard(project, session, person_at(project))
    plain: PlainCard = st.session_state[key]
    try:
        drawn = plain.draw()
    except (InputError, StorageError) as error:
        show_problem(error, waits=True)
        return
    st.html(NO_REPEATS, unsafe_allow_javascript=True)
    with st.container(key="plain"):
        st.html(picture_of(drawn.card))
        with st.container(horizontal=True, key="plain-answers"):
            for word in ANSWERS:
                _button(plain, drawn, word, *ANSWERS[word])
        with st.container(horizontal=True, key="plain-tools"):
            for word in TOOLS:
                _button(plain, drawn, word, *TOOLS[word])
        st.html(_strip(drawn.card))
        st.caption(literal(plain.message) if plain.message else _numbers(drawn.card), text_alignment="center")
    drawn.sent()


def _button(plain: PlainCard, drawn: Drawn, word: str, label: str, shortcut: str) -> None:
    has_use = drawn.last is not None if word == "undo" else drawn.card["item"] is not None
    st.button(
        label,
        # Each item has its own buttons, so that a press can't reach the button of another item.
        key=f"plain-{word}-{drawn.answer_id}",
        on_click=plain.press,
        args=(drawn, word),
        shortcut=shortcut,
        disabled=not has_use,
        width="stretch",
    )


def picture_of(card: dict[str, Any]) -> str:
    """Return the question and the item in view as HTML. If there is no item, the HTML says why."""
    item, concept = card["item"], card["concept"]
    shown, name = "", ""
    if item is None:
        text = _absence(card["waiting"], concept["question"])
        shown = f"<p>{escape(text)}</p>"
    elif item.get("text"):
        name = f'data-item="{item["id"]}" data-selection="{escape(item["selection"])}"'
        parts = "".join(f'<p class="{part["kind"]}">{escape(part["text"])}</p>' for part in item["text"])
        shown = f'<article tabindex="0">{parts}</article>'
    elif item["src"]:
        name = f'data-item="{item["id"]}" data-selection="{escape(item["selection"])}"'
        shown = f'<img src="{item["src"]}" alt="{escape(item["alt"])}">'
    else:
        why = f"{item['problem']} " if "problem" in item else ""
        shown = f"<p>{escape(item['alt'])} can't be shown. {escape(why)}Skip it to continue.</p>"
    if item is not None and item.get("alike"):
        shown += f"<figcaption>{escape(item['alike'])}</figcaption>"
    return f'<h1>{escape(concept["question"])}</h1><figure class="m-plain" {name}>{shown}</figure>'


def _absence(waiting: dict[str, Any], question: str) -> str:
    """Return a sentence that says why there is no item."""
    if not waiting["exhausted"]:
        return STOPPED if waiting["stopped"] else BEFORE_FIRST
    if waiting["done"] < waiting["total"]:
        return NO_MORE if waiting["stopped"] else BEFORE_MORE
    if waiting["held"] == 1:
        return "The last item without an answer is in another session's view."
    if waiting["held"]:
        return f"The last {waiting['held']} items without an answer are in other sessions' views."
    return waiting.get("message") or f"Every item has an answer to “{question}”"


def _strip(card: dict[str, Any]) -> str:
    thumbs = "".join(
        f'<img class="{entry["answer"]}" src="{entry["src"]}" alt="Item {entry["item"]}: {entry["answer"]}">'
        for entry in card["strip"][-7:]
    )
    return f'<div class="m-plain-strip">{thumbs}</div>'


def _numbers(card: dict[str, Any]) -> str:
    notes = card["notes"]
    parts = [f"round {card['round']}", f"{notes['scored']:,} of {notes['total']:,} scored"]
    if notes["selection_ms"] is not None:
        parts.append(f"selection {notes['selection_ms']:.2f} ms")
    if notes["retrain_ms"] is not None:
        parts.append(f"retrain {notes['retrain_ms']:.1f} ms")
    if notes["margin"] is not None:
        parts.append(f"|wᵀx| {notes['margin']:.7f}")
    counts = notes["counts"]
    parts.append(f"{counts['no']} no, {counts['yes']} yes, {counts['left']:,} left")
    return " · ".join(parts).replace("|", "\\|")
