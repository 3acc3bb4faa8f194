"""The toolbar of a page with a card, which is folded up on phones."""

from __future__ import annotations

import streamlit as st


def fold_on_phones(view: str) -> None:
    """Show the button that opens the toolbar on phones. Call this in the toolbar's container.

    `view` identifies what the page shows. When it changes, the button is drawn again, which folds up the
    toolbar.
    """
    with st.container(key="tools"):
        st.html(
            f'<details id="tools-{view}"><summary>'
            '<span class="m-shut">Tools</span><span class="m-open">Close</span></summary></details>'
        )
