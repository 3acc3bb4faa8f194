"""Streamlit's theme: palette, fonts and toolbar, as configuration for `st.App.run`.

Components read the same colours as CSS variables (``--st-blue-color``). The whole page therefore follows the
reader's light or dark setting without a rerun. Streamlit names colours by hue; here the hues have meanings:

========  =======================================
hue       meaning
========  =======================================
blue      yes
orange    no
green     brand, margin index
gray      skipped; secondary text
yellow    subsample
violet    h-hash-weighted
red       bh-hash-weighted
========  =======================================

`STRATEGY_COLOURS` has the colours of all strategies, in the order in which charts use them. A hash method
without weights has the hue of its weighted form, and charts draw it with hollow marks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

LIGHT = {
    "primaryColor": "#0F7A5C",
    "backgroundColor": "#F7F7F4",
    "secondaryBackgroundColor": "#FFFFFF",
    "textColor": "#15181D",
    "borderColor": "#D9D8D2",
    "blueColor": "#0B5FB0",
    "orangeColor": "#B84A00",
    "greenColor": "#0F7A5C",
    "grayColor": "#5B616B",
    "grayTextColor": "#5B616B",
    "yellowColor": "#A07C22",
    "violetColor": "#4F66D4",
    "redColor": "#A02228",
    "linkColor": "#0F7A5C",
}

DARK = {
    "primaryColor": "#25DDA2",
    "backgroundColor": "#0F1214",
    "secondaryBackgroundColor": "#191D20",
    "textColor": "#F0F1F2",
    "borderColor": "#31373C",
    "blueColor": "#5AABF5",
    "orangeColor": "#F5924C",
    "greenColor": "#25DDA2",
    "grayColor": "#A3A9B2",
    "grayTextColor": "#A3A9B2",
    "yellowColor": "#E5A02B",
    "violetColor": "#7F84FB",
    "redColor": "#EF6360",
    "linkColor": "#25DDA2",
}

STRATEGY_COLOURS = {
    "margin-index": ("#0F7A5C", "#25DDA2"),
    "random": ("#8A9099", "#7F868F"),
    "subsample": ("#A07C22", "#E5A02B"),
    "exhaustive": ("#15181D", "#F2F3F4"),
    "h-hash-weighted": ("#4F66D4", "#7F84FB"),
    "eh-hash-weighted": ("#7A2880", "#DB9FEB"),
    "bh-hash-weighted": ("#A02228", "#EF6360"),
    "lbh-hash-weighted": ("#0E6E8C", "#58C4E4"),
    "h-hash": ("#6F80DC", "#9DA1F5"),
    "eh-hash": ("#96509C", "#C78AD8"),
    "bh-hash": ("#BC565B", "#D9807E"),
    "lbh-hash": ("#3D86A0", "#86CCE2"),
    "likely-positive": ("#D6336C", "#FF7BC0"),
    "mixture": ("#3F6B00", "#B5E36A"),
    "auto": ("#5B4A00", "#E6D36A"),
}
"""Colours of the query strategies, for the light and the dark theme."""

_LIGHT_SERIES, _DARK_SERIES = zip(*STRATEGY_COLOURS.values(), strict=True)

CONFIG: dict[str, Any] = {
    "theme.font": "sans-serif",
    "theme.headingFont": "serif",
    "theme.headingFontSizes": ["30px", "23px", "19px"],
    "theme.headingFontWeights": [600, 600, 600],
    "theme.baseFontSize": 16,
    "theme.baseRadius": "8px",
    "theme.showWidgetBorder": True,
    **{f"theme.light.{name}": colour for name, colour in LIGHT.items()},
    **{f"theme.dark.{name}": colour for name, colour in DARK.items()},
    "theme.light.chartCategoricalColors": list(_LIGHT_SERIES),
    "theme.dark.chartCategoricalColors": list(_DARK_SERIES),
    "client.toolbarMode": "minimal",
}
"""Streamlit configuration by dotted option name."""

_PAGE_STYLE = Path(__file__).parents[1] / "static" / "page.css"

_VARIABLES = {
    "second": "grayTextColor",
    "line": "borderColor",
    "sheet": "secondaryBackgroundColor",
    "paper": "backgroundColor",
    "yes": "blueColor",
    "no": "orangeColor",
    "brand": "greenColor",
}


def page_style() -> str:
    """Return the style sheet of the page outside the components.

    It defines the palette as CSS variables, which components use, too. The variables and the colour scheme
    are set at the document's root, because Streamlit draws menus outside the app's element.
    """
    colours = {name: (LIGHT[option], DARK[option]) for name, option in _VARIABLES.items()}
    rules = [f"--m-{name}: light-dark({light}, {dark});" for name, (light, dark) in colours.items()]
    rules += [f"--m-{name}: light-dark({light}, {dark});" for name, (light, dark) in STRATEGY_COLOURS.items()]
    rules.append("--m-rule: color-mix(in srgb, var(--m-brand) 60%, var(--m-paper));")
    rules.append('--m-serif: "Source Serif", serif;')
    return f":root {{ color-scheme: light dark; {' '.join(rules)} }}\n{_PAGE_STYLE.read_text('utf-8')}"
