"""Parts of pages that Streamlit runs again on their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, overload

import streamlit as st

DAY_SECONDS = 24 * 60 * 60

Show = TypeVar("Show", bound=Callable[..., None])


@overload
def fragment(show: Show, *, run_every: float | None = None) -> Show: ...


@overload
def fragment(*, run_every: float) -> Callable[[Show], Show]: ...


def fragment(show: Show | None = None, *, run_every: float | None = None) -> Any:
    """Return the function as a Streamlit fragment that notices when its project has been superseded.

    The function's first argument is a project, or has the attribute `project`. Streamlit calls a fragment
    with the arguments of the last whole run. If another description of the project's items has been put to
    use since then, the whole page runs instead, with the project's new object.
    """
    if show is None:
        return partial(fragment, run_every=run_every)
    shown = show

    @wraps(shown)
    def checked(first: Any, *more: Any) -> None:
        if getattr(first, "project", first).is_superseded:
            st.rerun()
        shown(first, *more)

    return st.fragment(checked, run_every=run_every)


@st.fragment(run_every=DAY_SECONDS)
def run_again_when_reconnected() -> None:
    """Make Streamlit run the page when the browser is connected again, for instance to a restarted server.

    Streamlit does so for a page that has a fragment with a timer. This function is such a fragment. Without
    it, the first click on a control after a restart would only make the page known to the server: the click
    itself would be lost.
    """
