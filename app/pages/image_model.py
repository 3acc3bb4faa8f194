"""The picker of the features of images: GIST, or those of an image model on the server's machine."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from closecall.app.pages.markdown import literal
from closecall.app.pages.problems import show_problem
from closecall.app.projects.image_models import (
    DOWNLOADS,
    FEATURE_TYPES,
    FOLDER,
    TOOLS,
    AboutModel,
    ChosenFeatures,
    about_model,
    image_models,
    providers,
)
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError

GIST = "GIST (layout and texture)"


def choose_features(workspace: Workspace, *, offers_gist: bool = True) -> ChosenFeatures:
    """Offer the image models with their outputs, and the execution providers if there are several.

    If there are no models, show the commands that download some.
    """
    folder = (workspace.folder / FOLDER).absolute()
    offered = image_models(workspace.folder)
    name = st.selectbox(
        "Described by",
        [GIST, *offered] if offers_gist else list(offered),
        placeholder="There are no models yet",
        help="A model sees objects; GIST sees layout and texture. Models are files in the folder "
        f"{literal(str(folder))} on the machine that runs Closecall.",
    )
    if not offered:
        show_downloads(folder)
    if name not in offered:
        return ChosenFeatures()
    path, provider = offered[name], choose_provider()
    try:
        with st.spinner("Trying the model…"):
            about = about_model(path, provider)
        if (output := choose_output(about, name)) != about.output:
            with st.spinner("Trying the output…"):
                about = about_model(path, provider, output)
    except InputError as error:
        show_problem(error)
        return ChosenFeatures(str(path), provider, n_features=None)
    st.caption(literal(about.text))
    dtype = st.selectbox(
        "Features stored as",
        list(FEATURE_TYPES),
        format_func=lambda name: f"{name}: {FEATURE_TYPES[name]}",
        help="The classifier learns from the stored features. With byte, the margin index needs no further "
        "disk space.",
    )
    return ChosenFeatures(
        str(path) if output == next(iter(about.outputs)) else f"{path}#{output}",
        provider,
        None if dtype == "float32" else dtype,
        about.n_features,
        about.wait,
    )


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


def choose_output(about: AboutModel, name: str) -> str:
    """Offer the outputs of the model `name` if it has several; return the chosen one."""
    if len(about.outputs) < 2:
        return about.output
    chosen: str = st.selectbox(
        "Output",
        list(about.outputs),
        format_func=lambda output: f"{output}, {about.outputs[output]:,} features",
        help="The first output usually describes images best.",
        key=f"output of {name}",
    )
    return chosen


def show_downloads(folder: Path) -> None:
    """Show the commands that download models into a folder."""
    with st.expander("Get a model"):
        st.markdown(
            "A model describes the objects in an image. Closecall downloads none itself. In a terminal on "
            "the machine that runs Closecall, run the first command and one of the others. Then reload this "
            "page."
        )
        st.code(TOOLS, language=None)
        for model in DOWNLOADS:
            st.markdown(f"**{model.label}**" + (", also for search by words" if model.reads_texts else ""))
            st.code(model.command(folder), language=None)
