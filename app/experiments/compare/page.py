"""Functions that write a comparison's report as one self-contained HTML file, with light and dark mode."""

from __future__ import annotations

import base64
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from closecall.app.display.theme import DARK, LIGHT, STRATEGY_COLOURS
from closecall.core.files.durable import disk_trouble, replace_file

REPORT = "report.html"

GLYPHS = Path(__file__).parents[2] / "components" / "shared" / "glyphs.html"
"""File with the SVG marks of the strategies, which the app's pages use, too."""

_VARIABLES = {
    "page": "backgroundColor",
    "sheet": "secondaryBackgroundColor",
    "ink": "textColor",
    "second": "grayTextColor",
    "line": "borderColor",
    "brand": "greenColor",
    "yes": "blueColor",
    "no": "orangeColor",
}

_FONTS = {"Source Sans": "SourceSansVF-Upright", "Source Serif": "SourceSerifVariable-Roman"}
"""Names of Streamlit's font files, by font family."""


def write_page(template: str, path: Path, **words: Any) -> Path:
    """Fill a template, write the result to the file `path`, and return `path`.

    Parameters
    ----------
    template : str
        Path of the template relative to this module's folder; the template must extend ``page.html``.
    path : Path
        File in an existing folder.
    **words
        Variables of the template. Fonts, colours, marks and CSS are added to them.
    """
    environment = Environment(
        loader=PackageLoader("closecall.app.experiments.compare", "."),
        autoescape=True,
        undefined=StrictUndefined,
    )
    page = environment.get_template(template).render(
        glyphs=Markup(GLYPHS.read_text("utf-8")),
        fonts=Markup(_fonts()),
        colours=Markup(_colours()),
        css=Markup((Path(__file__).parent / "report.css").read_text("utf-8")),
        **words,
    )
    with disk_trouble(path):
        replace_file(path, page.encode())
    return path


def drawing(path: Path, name: str, caption: str) -> dict[str, Any]:
    """Read the SVG of a figure from `path`; return the caption and the inline SVG, for a template.

    The ids in the SVG get the prefix `name`; see `inline`.
    """
    return {"caption": caption, "svg": Markup(inline(path.read_text("utf-8"), name))}


def inline(svg: str, name: str) -> str:
    """Convert an SVG by matplotlib for use inside an HTML page.

    Colours become variables of the page. Ids get the prefix `name`, so that figures on one page don't clash.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="[a-z]+[0-9a-z.]*_\d+"', "", svg)
    svg = re.sub(r"font-family: [^;\"]*", "font-family: inherit", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    for variable, colour in _light().items():
        svg = re.sub(rf"{colour}\b", f"var(--{variable})", svg, flags=re.IGNORECASE)
    return (
        svg.replace('id="', f'id="{name}-')
        .replace("url(#", f"url(#{name}-")
        .replace('href="#', f'href="#{name}-')
    )


def _light() -> dict[str, str]:
    """Return a dict with the light-mode colours of figures, by the colours' names on the page."""
    own = {name: light for name, (light, _) in STRATEGY_COLOURS.items()}
    return own | {name: LIGHT[_VARIABLES[name]] for name in ("ink", "second", "line", "sheet", "yes", "no")}


def _fonts() -> str:
    """Return CSS that embeds the page's fonts; fonts that are not installed are left out."""
    streamlit = find_spec("streamlit")
    folders = streamlit.submodule_search_locations if streamlit else None
    style = ""
    for folder in folders or ():
        for family, name in _FONTS.items():
            for path in sorted((Path(folder) / "static" / "static" / "media").glob(f"{name}*.woff2")):
                encoded = base64.b64encode(path.read_bytes()).decode("ascii")
                style += (
                    f'@font-face {{ font-family: "{family}"; font-weight: 200 900; '
                    f"src: url(data:font/woff2;base64,{encoded}) }}\n"
                )
    return style


def _colours() -> str:
    pairs = {name: (LIGHT[option], DARK[option]) for name, option in _VARIABLES.items()} | STRATEGY_COLOURS
    style = (f"--{name}: light-dark({light}, {dark});" for name, (light, dark) in pairs.items())
    return f":root {{ {' '.join(style)} }}\n"
