"""The person at the page, whose name is in the browser's cookie or was verified by a sign-in provider."""

from __future__ import annotations

import json
from urllib.parse import quote, unquote, urlsplit

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from closecall.app.pages.markdown import literal
from closecall.app.pages.problems import show_problem
from closecall.app.pages.wanted import SIGN_IN, go_to_wanted
from closecall.app.projects.oidc import UNNAMED
from closecall.app.projects.roles import (
    SOMEBODY,
    called,
    known_names,
    name_given,
    name_vouched_for,
    spelled_otherwise,
)
from closecall.app.sessions.workspace import current
from closecall.core.errors import InputError

COOKIE = "closecall_name"
"""Cookie with the annotator's name, which is not secret."""

FORMER_COOKIE = "marginalia_name"
"""Cookie with the annotator's name, as stored under the program's former name."""

KEPT_DAYS = 365

REMEMBER = """<script>
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = {cookie} + "; path=/; max-age={seconds}; samesite=lax" + secure;
</script>"""

WANTED = "closecall_wanted"
"""Cookie with the page that a person requested before signing in."""

FORMER_WANTED = "marginalia_wanted"
"""Cookie with the requested page, as stored under the program's former name."""

KEEP_WANTED = f"""<script>
  const wanted = location.pathname + location.search;
  const secure = location.protocol === "https:" ? "; secure" : "";
  const lifetime = `path=/; max-age=${{wanted.endsWith("/") ? 0 : 600}}; samesite=lax${{secure}}`;
  document.cookie = `{WANTED}=${{encodeURIComponent(wanted)}}; ${{lifetime}}`;
</script>"""

GO_TO_WANTED = f"""<script>
  if (!window.closecallGoes) {{ // Streamlit may run this again before the browser has left the page
    window.closecallGoes = true;
    const cookies = document.cookie.split("; ");
    const [kept] = ["{WANTED}", "{FORMER_WANTED}"].flatMap((name) => {{
      document.cookie = `${{name}}=; path=/; max-age=0; samesite=lax`;
      return cookies.filter((part) => part.startsWith(`${{name}}=`));
    }});
    const home = new URL("./", document.baseURI).href;
    location.replace(kept ? location.origin + decodeURIComponent(kept.split("=")[1]) : home);
  }}
</script>"""


IS_NEW, ALIKE = "is new", "name alike"
"""Keys in Streamlit's session state: whether the person has just taken a name; the typed name, with the known
names that differ from it only in letter case.
"""


def must_sign_in() -> bool:
    """Return whether the person must sign in before seeing the page."""
    return current().roles.must_sign_in and not st.user.is_logged_in


def comes_back() -> bool:
    """Return whether to redirect to a page that the person requested before signing in.

    This is necessary because the sign-in provider always redirects to ``/``.
    """
    cookies = st.context.cookies
    return current().roles.must_sign_in and (WANTED in cookies or FORMER_WANTED in cookies)


def to_wanted() -> None:
    """Redirect to the page that the person requested before signing in."""
    st.html(GO_TO_WANTED, unsafe_allow_javascript=True)


def name_at_page() -> str:
    """Return the name that answers are stored under.

    Raises
    ------
    InputError
        If the provider's identity token has no name that can be stored.
    """
    if current().roles.must_sign_in:
        return _vouched_for() if st.user.is_logged_in else SOMEBODY
    if "name" not in st.session_state:
        st.session_state["name"] = _remembered()
    name: str = st.session_state["name"]
    return name


def _vouched_for() -> str:
    way_in = current().sign_in
    has_several = way_in is not None and len(way_in.providers) > 1
    return name_vouched_for(st.user.to_dict(), with_issuer=has_several)


def remember() -> None:
    """Store the person's name in the browser's cookie, unless it is stored there already."""
    known = _remembered()
    is_former = FORMER_COOKIE in st.context.cookies and COOKIE not in st.context.cookies
    name = st.session_state.get("name", known)
    if is_former or name != known:
        cookie = json.dumps(f"{COOKIE}={quote(name, safe='')}")
        st.html(REMEMBER.format(cookie=cookie, seconds=KEPT_DAYS * 24 * 3600), unsafe_allow_javascript=True)


def title() -> str:
    """Return the title of the sign-in page in the top bar: the person's name, or "Sign in"."""
    try:
        name = name_at_page()
    except InputError:
        return "Sign in"
    if current().roles.must_sign_in:
        return called(st.user.to_dict(), name)
    return "Sign in" if name == SOMEBODY else name


def sign_in_page() -> StreamlitPage:
    """Return the sign-in page for the top bar."""
    return st.Page(sign_in, title=literal(title()), icon=":material/person:", url_path=SIGN_IN)


def door() -> None:
    """Show only the sign-in buttons, to people who must sign in first."""
    way_in = current().sign_in
    assert way_in is not None
    here = urlsplit(st.context.url or "")
    st.html(KEEP_WANTED, unsafe_allow_javascript=True)
    with st.container(key="door", width=480):
        st.title("Closecall", anchor=False)
        if here.netloc and f"{here.scheme}://{here.netloc}" != way_in.origin:
            st.markdown("Sign-in works only at this address:")
            st.link_button(way_in.home, way_in.home, type="primary")
            return
        st.markdown("Sign in to label.")
        for provider in way_in.providers:
            name = "Sign in" if provider == UNNAMED else f"Sign in with {provider}"
            st.button(name, key=f"in-{provider}", type="primary", on_click=st.login, args=[provider])


def sign_in() -> None:
    """Show the person's name, with buttons to sign out or to label under another name."""
    with st.container(key="door", width=480):
        try:
            name = name_at_page()
        except InputError as error:
            show_problem(error)
            st.button("Sign out", on_click=st.logout)
            return
        if current().roles.must_sign_in:
            st.title(literal(called(st.user.to_dict(), name)), anchor=False)
            st.markdown(f"Your answers are stored under **{literal(name)}**.")
            st.button("Sign out", on_click=st.logout)
            return
        st.title("Who is labeling?", anchor=False)
        if name != SOMEBODY:
            st.markdown(f"Currently **{literal(name)}**.")
        take_name()
        if st.session_state.pop(IS_NEW, False):
            go_to_wanted()
        others = known_names(current().annotators(name_at_page()), but_for={name})
        if others:
            st.caption("Or choose a name that was used before:")
            with st.container(horizontal=True):
                for other in others:
                    st.button(literal(other), key=f"name-{other}", on_click=become, args=[other])
        if name != SOMEBODY and not current().roles.are_named:
            st.button("Continue without a name", type="tertiary", on_click=become, args=[SOMEBODY])
        st.caption("No password: names only keep people’s answers apart.")


def take_name() -> None:
    """Show the field for a name; Enter submits it.

    A name that is listed in another spelling becomes the listed one. If the name differs from that of an
    annotator only in letter case or encoding of accents, ask whether this is the same person.
    """

    def taken() -> None:
        try:
            name = current().spelled(name_given(st.session_state["given name"]))
            alike = spelled_otherwise(name, current().annotators(name))
        except InputError as error:
            st.session_state["name trouble"] = str(error)
            return
        if alike:
            st.session_state[ALIKE] = name, alike
        else:
            become(name)

    with st.form("naming", border=False):
        st.text_input("Name", key="given name", placeholder="Ada", autocomplete="name")
        st.form_submit_button("Start labeling", type="primary", on_click=taken)
    if trouble := st.session_state.pop("name trouble", None):
        show_problem(trouble)
    if ALIKE in st.session_state:
        offer_spelling(*st.session_state[ALIKE])


def offer_spelling(name: str, alike: list[str]) -> None:
    """Offer the known spellings of a name, or to continue as another person with the name as typed."""
    known = " and ".join(f"**{literal(other)}**" for other in alike)
    st.markdown(f"{known} {'has' if len(alike) == 1 else 'have'} labeled here before. Is that you?")
    with st.container(horizontal=True):
        for other in alike:
            st.button(
                f"Yes, I am {literal(other)}",
                key=f"same-{other}",
                type="primary",
                on_click=become,
                args=[other],
            )
        st.button(f"No, I am {literal(name)}", key="another person", on_click=become, args=[name])


def become(name: str) -> None:
    """Store answers under this name from now on, and leave the previous person's session."""
    st.session_state["name"] = name
    st.session_state[IS_NEW] = True
    st.session_state.pop(ALIKE, None)
    st.query_params.pop("session", None)


def _remembered() -> str:
    cookies = st.context.cookies
    try:
        return name_given(unquote(cookies.get(COOKIE) or cookies.get(FORMER_COOKIE) or SOMEBODY))
    except InputError:
        return SOMEBODY
