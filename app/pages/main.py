"""Names the pages; run by Streamlit at every rerun."""

from pathlib import Path

import streamlit as st

from app.theme import page_style

STATIC = Path(__file__).parent.parent / "static"

st.set_page_config(page_title="Marginalia", page_icon=str(STATIC / "icon.svg"), layout="wide")
st.logo(str(STATIC / "logo.svg"), size="large")
st.html(f"<style>{page_style()}</style>")
st.navigation(
    [
        st.Page("start.py", title="Projects", url_path="projects"),
        st.Page("label.py", title="Label", default=True),
        st.Page("progress.py", title="Progress", url_path="progress"),
        st.Page("review.py", title="Review", url_path="review"),
    ],
    position="top",
).run()
