"""The slider for a mixture strategy: shares of items near the hyperplane, likely positives, random items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from closecall.app.display.strategy_labels import Shares
from closecall.app.pages.state import show_value

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession


def adjust_shares(session: LabelingSession) -> None:
    """Show the slider if the session's strategy is a mixture."""
    shares = Shares.of(session.strategy)
    if shares is None:
        return

    def adjusted() -> None:
        first, second = st.session_state["shares"]
        session.set_strategy(Shares(first, second - first, 100 - second).word)

    shown = show_value("shares", (shares.margin, shares.margin + shares.likely))
    st.slider(
        "Shares of the mixture", 0, 100, shown, step=5, key="shares", on_change=adjusted, format="%d %%"
    )
    st.caption(
        f"{shares.margin} % nearest to the hyperplane, {shares.likely} % likely positive, "
        f"{shares.random} % random"
    )
