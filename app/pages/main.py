"""The main script, which lists the pages. Streamlit runs it whenever it runs a page."""

from pathlib import Path
from typing import Literal

import streamlit as st

from closecall.app.api.map import is_mapped
from closecall.app.display.theme import page_style
from closecall.app.pages.chosen import chosen_key
from closecall.app.pages.fragment import run_again_when_reconnected
from closecall.app.pages.person import comes_back, door, must_sign_in, remember, sign_in_page, to_wanted
from closecall.app.pages.presence import begin_run, end_other_tabs, end_run
from closecall.app.pages.wanted import FILES, begin_visit, everywhere
from closecall.app.sessions.workspace import current

STATIC = Path(__file__).parent.parent / "static"

st.set_page_config(page_title="Closecall", page_icon=str(STATIC / "icon.svg"), layout="wide")
st.logo(str(STATIC / "logo.svg"), size="large")
st.html(f"<style>{page_style()}</style>")
if must_sign_in():
    pages = everywhere(door, "Sign in")
elif comes_back():
    pages = everywhere(to_wanted, "Closecall")
else:
    remember()
    map_is: Literal["visible", "hidden"] = "visible" if is_mapped(current(), chosen_key()) else "hidden"
    pages = [
        st.Page(FILES["projects"], title="Projects", url_path="projects"),
        st.Page(FILES[""], title="Label", default=True),
        st.Page(FILES["compare"], title="Compare", url_path="compare"),
        st.Page(FILES["similar"], title="Find similar", url_path="similar"),
        st.Page(FILES["progress"], title="Progress", url_path="progress"),
        st.Page(FILES["map"], title="Map", url_path="map", visibility=map_is),
        st.Page(FILES["describe"], title="Describe again", url_path="describe", visibility="hidden"),
        st.Page(FILES["review"], title="Review", url_path="review"),
        st.Page(FILES["people"], title="People", url_path="people"),
        sign_in_page(),
    ]
page = st.navigation(pages, position="top")
begin_visit(page.url_path)
run_again_when_reconnected()
begin_run()
page.run()
if must_sign_in():
    end_other_tabs()
else:
    end_run()
