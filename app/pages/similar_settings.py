"""The settings of Find similar under the button *More*.

Only settings that apply to the chosen codes and structure are shown. Changes are kept in a draft, and the
page shows the draft's estimated cost. The codes are built only after the draft is applied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from closecall.app.display.phrases import about, as_sentence
from closecall.app.indexes.choosing import ROWS, n_trials
from closecall.app.indexes.costs import cost_of, guarantee_of
from closecall.app.indexes.recipe import Recipe
from closecall.app.indexes.settings import BITS_A_FUNCTION, OF_CODES, OF_STRUCTURE, WHOLE
from closecall.app.indexes.similar import KERNELS
from closecall.app.pages.markdown import literal
from closecall.app.pages.state import show_value, state
from closecall.app.runtime import kernels
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.app.sessions.registry import OpenProject
    from closecall.app.sessions.similar.session import SimilarSession

WIDTH = 440
"""Width of the settings in pixels."""

GAMMA = "gamma"
"""Name of the field for γ of an RBF kernel. A recipe has no such setting: γ is part of its `kernel`."""

FROM_ITEMS = "RBF, width from the items"

TROUBLE = "more-trouble"
"""Key in Streamlit's session state: why rank and scale could not be chosen."""

OPTIONAL = ("radius", "epsilon")
"""Numeric settings whose field may be empty."""

FIRST_GAMMA = 2.0
"""Initial γ after a user has chosen an RBF kernel."""


@dataclass(frozen=True)
class Number:
    """The field of a numeric setting. If the setting is v, the page shows `offset` + `factor` · v."""

    label: str
    step: float
    help: str
    factor: float = 1
    offset: float = 0


NUMBERS = {
    "rank": Number("Rank", 1, "Number of principal components of the landmarks"),
    "scale": Number("Scale", 0.5, "The kernel κ becomes exp(scale · (κ − 1))"),
    "landmarks": Number("Landmarks", 50, "Items to which every item is compared by the kernel"),
    "functions": Number("Functions", 32, "Number of functions in a code: more find more, and cost more"),
    "share": Number("Share compared (%)", 1, "Share of the codes that a search compares", 100),
    "candidates": Number("Candidates", 1000, "Items ranked exactly, those with the nearest codes"),
    "radius": Number(
        "Radius (°)", 1, "Tables for items within this angle; if not set, as many as fit into the memory"
    ),
    "epsilon": Number(
        "ε", 0.1, "Found items are at most 1 + ε times as far as the nearest; a smaller ε needs more memory"
    ),
    "memory": Number("Memory (bytes per item)", 32, "Limits tables and orders; codes are not included"),
}

LEAST_OVERLAP = Number(
    "Least overlap (%)",
    5,
    "Tables for items that share at least this much; if not set, as many as fit into the memory",
    factor=-1,
    offset=100,
)
"""The field that is shown instead of the radius for codes that estimate the overlap."""


class Draft:
    """Settings that were entered but not applied yet. They are kept between runs of the page."""

    def __init__(self, similar: SimilarSession) -> None:
        self.in_force = similar.recipe
        self.key = "draft", similar.id

    @property
    def recipe(self) -> Recipe:
        """The entered settings, or the settings in use if none were entered.

        Entered settings are dropped when the settings in use change.
        """
        before, entered = state.get(self.key, (None, self.in_force))
        return entered if before == self.in_force else self.in_force

    def put(self, recipe: Recipe) -> None:
        """Replace all entered settings."""
        state[self.key] = self.in_force, recipe

    def change(self, **settings: Any) -> None:
        """Change settings of the draft. A setting that no longer applies after this gets its default."""
        self.put(self.recipe.having(**settings))


def more(project: OpenProject, similar: SimilarSession, n_rows: int) -> None:
    """Show the settings that have an effect, and the draft's cost. The pool has `n_rows` items."""
    draft = Draft(similar)
    names = _offered(draft.recipe, is_learned=similar.view == "learned")
    with st.popover("More", icon=":material/tune:", key="more"), st.container(width=WIDTH):
        for first in range(0, len(names), 2):
            for name, column in zip(names[first : first + 2], st.columns(2), strict=False):
                with column:
                    _control(project, draft, name)
        _show_cost(project, similar, draft, n_rows)


def _offered(recipe: Recipe, *, is_learned: bool) -> list[str]:
    """Return the names of the settings to show: those that apply to the recipe.

    If `is_learned`, the search is under a learned metric. A setting is then shown only if it also applies to
    `Recipe.under_metric`.
    """
    shown = [recipe, recipe.under_metric] if is_learned else [recipe]
    names = [*OF_CODES, "candidates", *OF_STRUCTURE]
    names = [name for name in names if all(one.applies(name) for one in shown)]
    if len({one.radius_of for one in shown}) > 1 and "radius" in names:
        names.remove("radius")  # the recipe's radius is an overlap, but the metric's codes need an angle
    if "kernel" in names and (recipe.kernel or "").startswith("rbf"):
        names.insert(names.index("kernel") + 1, GAMMA)
    return names


def _control(project: OpenProject, draft: Draft, name: str) -> None:
    """Show one setting."""
    if name == "form":
        _choose(draft, name, "Form", {form: form.capitalize() for form in draft.recipe.forms})
    elif name == "bits":
        _choose(draft, name, "Bits per function", {bits: str(bits) for bits in BITS_A_FUNCTION})
    elif name == "kernel":
        _choose_kernel(project, draft)
    elif name == GAMMA:
        _enter_gamma(draft)
    else:
        _number(draft, name)


def _choose(draft: Draft, name: str, label: str, options: dict[Any, str]) -> None:
    key = f"more-{name}"
    shown = show_value(key, draft.recipe.value(name))
    st.selectbox(
        label,
        list(options),
        list(options).index(shown),
        format_func=options.__getitem__,
        key=key,
        on_change=lambda: draft.change(**{name: state[key]}),
    )


def _choose_kernel(project: OpenProject, draft: Draft) -> None:
    """Show the picker of the kernel."""
    word = (draft.recipe.value("kernel") or "").partition(":")[0]
    suitable = project.similar.kernels
    options = {name: label for name, label in KERNELS.items() if name in suitable or name == word}
    if not draft.recipe.default("kernel"):
        options = {"": FROM_ITEMS, **options}

    def picked() -> None:
        own = state["more-kernel"]
        draft.change(kernel=f"rbf:gamma={FIRST_GAMMA:g}" if own == "rbf" else own or None)

    st.selectbox(
        "Kernel",
        list(options),
        list(options).index(show_value("more-kernel", word)),
        format_func=options.__getitem__,
        key="more-kernel",
        on_change=picked,
    )


def _enter_gamma(draft: Draft) -> None:
    """Show the field for γ of an RBF kernel."""
    st.number_input(
        "γ",
        0.01,
        1000.0,
        show_value("more-gamma", float((draft.recipe.kernel or "").partition("=")[2])),
        step=0.5,
        format="%g",
        key="more-gamma",
        on_change=lambda: draft.change(kernel=f"rbf:gamma={state['more-gamma']:g}"),
        help="The kernel is exp(−γ‖x − y‖²)",
    )


def _number(draft: Draft, name: str) -> None:
    about, key = NUMBERS[name], f"more-{name}"
    if name == "radius" and draft.recipe.radius_of == "overlap":
        about = LEAST_OVERLAP
    kind: Callable[[float], float] = int if name in WHOLE else float

    def on_page(value: float) -> float:
        return kind(round(about.offset + about.factor * value, 6))

    least, most = sorted(map(on_page, draft.recipe.limits(name)))
    value = draft.recipe.value(name)
    shown = None if value is None else on_page(value)
    is_length = name == "functions" and not draft.recipe.applies("bits")

    def entered() -> None:
        new = state[key]
        own = None if new is None else kind(round((new - about.offset) / about.factor, 9))
        draft.change(**{name: own})

    st.number_input(
        "Code length (bits)" if is_length else about.label,
        least,
        most,
        value=show_value(key, shown),
        step=kind(about.step),
        format="%d" if name in WHOLE else "%g",
        key=key,
        placeholder="not set",
        on_change=entered,
        help=about.help,
    )


def _show_cost(project: OpenProject, similar: SimilarSession, draft: Draft, n_rows: int) -> None:
    """Show the draft's cost or a problem with its settings, and the buttons that apply or reset the draft."""
    recipe = draft.recipe
    problem = None
    try:
        recipe.check(n_rows)
        said = _cost(project, similar, recipe, n_rows)
    except InputError as error:
        problem = str(error)
        st.error(literal(as_sentence(problem)))
    else:
        st.caption(literal(said))
    usual = project.similar.with_suitable_kernel(Recipe(recipe.structure, recipe.family))
    if recipe.applies("rank"):
        _offer_choice(project, draft)
    with st.container(horizontal=True):
        st.button(
            "Apply",
            type="primary",
            disabled=problem is not None or recipe == similar.recipe,
            on_click=lambda: similar.set_recipe(draft.recipe),
        )
        st.button("Defaults", disabled=recipe == usual, on_click=lambda: draft.put(usual))


def _cost(project: OpenProject, similar: SimilarSession, recipe: Recipe, n_rows: int) -> str:
    """Return sentences about the cost and the guarantee of a recipe.

    If a metric was learned, further sentences describe the recipe under this metric.
    """
    concept = similar.session.concept
    seconds = project.similar.seconds(recipe, concept)
    family = project.similar.agreeing(recipe)
    is_built = seconds is not None or recipe.codes == similar.recipe.codes
    time = project.similar.build_time(recipe, concept)
    said = [
        cost_of(recipe, n_rows, family).sentence(is_built=is_built, seconds=seconds, time=time),
        guarantee_of(recipe, n_rows, family),
    ]
    metric = similar.learning.newest(project.pool) if project.pool is not None else None
    if metric is not None:
        under = recipe.under_metric
        is_built = under.codes == similar.recipe.under_metric.codes
        time = project.similar.build_time(under, concept, metric)
        cost = cost_of(under, n_rows).sentence(is_built=is_built, time=time)
        said += [f"Under the learned metric: {cost}", guarantee_of(under, n_rows, under_metric=True)]
    return " ".join(filter(None, said))


def _offer_choice(project: OpenProject, draft: Draft) -> None:
    """Show the button that chooses rank and scale from the data, with the expected time."""
    what = "rank and scale" if draft.recipe.applies("scale") else "rank"

    def choose() -> None:
        try:
            draft.put(project.similar.estimates.chosen(draft.recipe))
        except InputError as error:
            state[TROUBLE] = str(error)

    seconds = project.similar.estimates.choice_time(draft.recipe)
    takes = f". Takes {about(seconds)}" if seconds is not None else ""
    st.button(
        f"Choose {what} by the data",
        icon=":material/auto_fix_high:",
        disabled=not kernels.is_ready("everything"),
        on_click=choose,
        help=f"Tries {n_trials(draft.recipe)} values on up to {ROWS:,} items{takes}",
    )
    if (problem := state.pop(TROUBLE, None)) is not None:
        st.error(literal(as_sentence(problem)))
