"""The picker of the features of images: GIST, or those of an image model on the server's machine."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from closecall.app.pages.markdown import literal
from closecall.app.pages.problems import show_problem
from closecall.app.projects.image_models import FOLDER, about_model, image_models, providers
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError

GIST = "GIST (layout and texture)"


def choose_model(workspace: Workspace, *, offers_gist: bool = True) -> tuple[Path | None, str | None, float]:
    """Offer the image models, and the execution providers if there are several.

    Return the chosen model, its provider, and the seconds until labeling starts. The model is None for GIST,
    or if there are no models. If there is no choice of providers, the provider is None, which means the CPU.
    """
    offered = image_models(workspace.folder)
    name = st.selectbox(
        "Described by",
        [GIST, *offered] if offers_gist else list(offered),
        placeholder="There are no models yet",
        help="A model sees objects; GIST sees layout and texture. Models are files in the folder "
        f"{literal(str(workspace.folder / FOLDER))} on the machine that runs Closecall.",
    )
    if name not in offered:
        return None, None, 0.0
    path, provider = offered[name], choose_provider()
    try:
        with st.spinner("Trying the model…"):
            about, seconds = about_model(path, provider)
    except InputError as error:
        show_problem(error)
        return path, provider, 0.0
    st.caption(literal(about))
    return path, provider, seconds


def choose_provider() -> str | None:
    """Offer the execution providers for the model; return the chosen one, or None if there is no choice."""
    offered = providers()
    if len(offered) < 2:
        return None
    chosen: str = st.selectbox(
        "Computed with",
        list(offered),
        format_func=lambda name: offered[name].removeprefix("the "),
        help="The CPU gives the same bits everywhere. Others are faster, and differ in the last digits.",
    )
    return chosen
