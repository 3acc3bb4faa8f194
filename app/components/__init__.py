"""Components: the interactive parts of the pages, which run in the browser.

Each component is a Streamlit component (version 2). It consists of markup, style sheets and small ES modules.
The browser imports the modules from the server one by one. Components run in the page itself, inside a shadow
root. The folder `shared` has the files that several components use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from closecall.app.api.submit import named
from closecall.app.components.modules import FOLDER, address_of

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer


@dataclass(frozen=True)
class Component:
    """A component and its files.

    Parameters
    ----------
    name : str
        Name of the component in Streamlit.
    markup, styles : tuple of str
        Files in the folder of this package, joined in order. Later style sheets override earlier ones.
    module : str
        The file whose default export shows the component; this file imports the other modules.
    states : tuple of str
        Names of the values that the browser may send. The value `pending` has the annotator's answers.
    """

    name: str
    markup: tuple[str, ...]
    styles: tuple[str, ...]
    module: str
    states: tuple[str, ...] = ("pending",)

    def show(self, payload: Mapping[str, Any], *, key: str) -> None:
        """Show the component with `payload`.

        When the browser sends answers, Streamlit runs the page again. The page reads them with `answers_of`.
        """
        # Streamlit keeps only those values from the browser that have a callback.
        callbacks: dict[str, Any] = {f"on_{name}_change": _nothing for name in self.states}
        self._renderer(data=dict(payload), key=key, **callbacks)

    @property
    def script(self) -> str:
        """The source of a small module that imports `module`.

        Streamlit runs this small module from a blob URL, where relative URLs do not work. The small module
        therefore imports `module` by an absolute URL. A failed import is retried with the next payload.
        """
        return LEADS_TO.format(address_of(self.module))

    @cached_property
    def _renderer(self) -> ComponentRenderer:
        import streamlit as st

        html, css = "\n".join(map(_read, self.markup)), "\n".join(map(_read, self.styles))
        return st.components.v2.component(f"closecall_{self.name}", html=html, css=css, js=self.script)


LEADS_TO = """\
let show;
export default async (component) => {{
  show ??= (await import(new URL("{}", document.baseURI))).default;
  return show(component);
}};
"""

HEADED = ("shared/base.css", "shared/headline.css", "shared/margin.css", "shared/help.css")
"""Styles of the components that have a headline."""

LABEL = Component(
    "label",
    markup=("shared/glyphs.html", "label/card.html"),
    styles=(
        "shared/base.css",
        "label/stage.css",
        "shared/frame.css",
        "shared/help.css",
        "shared/margin.css",
        "label/text.css",
        "label/demo.css",
        "label/layouts.css",
        "label/choices.css",
        "shared/large.css",
        "label/large.css",
    ),
    module="label/card.js",
    states=("pending", "check"),
)
"""One item, the buttons to answer, and statistics beside the item."""

GRID = Component(
    "grid",
    markup=("shared/glyphs.html", "grid/grid.html"),
    styles=(
        "shared/base.css",
        "label/stage.css",
        "shared/frame.css",
        "shared/help.css",
        "shared/margin.css",
        "shared/search.css",
        "label/layouts.css",
        "grid/grid.css",
        "shared/large.css",
        "label/large.css",
    ),
    module="grid/grid.js",
    states=("pending", "asked"),
)
"""Many items to mark as yes or no, and statistics beside them."""

REVIEW = Component(
    "review",
    markup=("shared/glyphs.html", "review/review.html"),
    styles=(
        *HEADED,
        "shared/search.css",
        "shared/tabs.css",
        "shared/large.css",
        "review/review.css",
    ),
    module="review/review.js",
    states=("pending", "asked"),
)
"""The list of answers, where they can be corrected."""

SIMILAR = Component(
    "similar",
    markup=("shared/glyphs.html", "similar/similar.html"),
    styles=(
        *HEADED,
        "label/text.css",
        "shared/large.css",
        "similar/similar.css",
        "similar/texts.css",
    ),
    module="similar/similar.js",
    states=("pending", "asked", "upload", "beat"),
)
"""Similar items, selected and answered together."""

PROGRESS = Component(
    "progress",
    markup=("shared/glyphs.html", "progress/progress.html"),
    styles=(
        *HEADED,
        "shared/tabs.css",
        "shared/large.css",
        "progress/progress.css",
    ),
    module="progress/progress.js",
    states=("share", "beat"),
)
"""The learning curve and the audit."""

PEOPLE = Component(
    "people",
    markup=("people/people.html",),
    styles=(
        *HEADED,
        "shared/large.css",
        "people/people.css",
    ),
    module="people/people.js",
    states=(),
)
"""Each annotator's amount of work, and agreement with the other annotators."""

COMPARE = Component(
    "compare",
    markup=("shared/glyphs.html", "compare/hyperplane.html"),
    styles=(
        *HEADED,
        "compare/rows.css",
        "compare/hyperplane.css",
        "shared/large.css",
        "compare/large.css",
    ),
    module="compare/hyperplane.js",
    states=("again", "beat"),
)
"""Query strategies compared on the same hyperplanes."""

RACE = Component(
    "race",
    markup=("shared/glyphs.html", "compare/race.html"),
    styles=(
        *HEADED,
        "shared/tabs.css",
        "compare/rows.css",
        "compare/curves.css",
        "compare/race.css",
        "shared/large.css",
        "compare/large.css",
    ),
    module="compare/race.js",
    states=("command", "beat"),
)
"""A race of query strategies."""

VERDICT = Component(
    "verdict",
    markup=("shared/glyphs.html", "compare/verdict.html"),
    styles=(
        *HEADED,
        "compare/rows.css",
        "compare/curves.css",
        "compare/verdict.css",
        "shared/large.css",
        "compare/large.css",
    ),
    module="compare/verdict.js",
    states=(),
)
"""The result of a blind comparison."""

MAP = Component(
    "map",
    markup=("shared/glyphs.html", "map/map.html"),
    styles=(
        *HEADED,
        "shared/large.css",
        "map/map.css",
    ),
    module="map/map.js",
    states=("lasso", "beat"),
)
"""A two-dimensional map of the pool's items, coloured by their scores."""


PRESENCE = Component("presence", markup=(), styles=(), module="presence/presence.js", states=("again",))
"""An invisible component that tells the server when the tab is closed."""


def answers_of(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the answers that the browser sent last; `state` is the component's entry in the session state.

    Answers without a valid id and session are dropped, because they can be neither stored nor reported to
    the browser as refused.
    """
    return named(state.get("pending"))


def _read(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


def _nothing() -> None:
    pass
