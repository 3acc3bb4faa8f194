"""The main script, which lists the pages. Streamlit runs it whenever it runs a page."""

from pathlib import Path
from typing import Literal

import streamlit as st

from closecall.app.api.map import is_mapped
from closecall.app.display.theme import page_style
from closecall.app.pages.chosen import chosen_key
from closecall.app.pages.person import comes_back, door, must_sign_in, remember, sign_in_page, to_wanted
from closecall.app.sessions.workspace import current

STATIC = Path(__file__).parent.parent / "static"

st.set_page_config(page_title="Closecall", page_icon=str(STATIC / "icon.svg"), layout="wide")
st.logo(str(STATIC / "logo.svg"), size="large")
st.html(f"<style>{page_style()}</style>")
pages = [st.Page(door, title="Sign in")]
if not must_sign_in() and comes_back():
    pages = [st.Page(to_wanted, title="Closecall")]
elif not must_sign_in():
    remember()
    map_is: Literal["visible", "hidden"] = "visible" if is_mapped(current(), chosen_key()) else "hidden"
    pages = [
        st.Page("start.py", title="Projects", url_path="projects"),
        st.Page("label.py", title="Label", default=True),
        st.Page("compare.py", title="Compare", url_path="compare"),
        st.Page("similar.py", title="Find similar", url_path="similar"),
        st.Page("progress.py", title="Progress", url_path="progress"),
        st.Page("map.py", title="Map", url_path="map", visibility=map_is),
        st.Page("describe.py", title="Describe again", url_path="describe", visibility="hidden"),
        st.Page("review.py", title="Review", url_path="review"),
        st.Page("people.py", title="People", url_path="people"),
        sign_in_page(),
    ]
st.navigation(pages, position="top").run()
