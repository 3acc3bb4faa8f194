"""Density tiles of a map as images: one pixel per cell, coloured by the scores of the items in it.

Three things give a cell its colour:

- the mean score of its items determines the hue: from the colour of no through pale grey to that of yes;
- the share of its items in the band around the hyperplane determines how much of the text colour is mixed in;
- the number of its items, on a logarithmic scale, determines the opacity. A high share in the band raises the
  opacity.
"""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.app.display.theme import DARK, LIGHT
from closecall.core.map.tiles import Cells

THEMES: Mapping[str, Mapping[str, str]] = {"light": LIGHT, "dark": DARK}

LEAST_OPACITY = 0.3
"""Lower bound of the opacity of a cell that has items."""


def colours(
    cells: Cells, in_band: NDArray[np.float64], *, furthest: float, dense: float, theme: str
) -> NDArray[np.uint8]:
    """Return the colours of a tile's cells as red, green, blue and opacity, of shape (n_cells, 4).

    Parameters
    ----------
    cells : Cells
        The cells that have items.
    in_band : array of shape (n_cells,)
        Share of each cell's items that are in the band, 0 … 1. The band's colour is mixed in with the square
        root of this share, so that a cell with only a few of its items in the band still stands out.
    furthest : float
        A cell whose mean score wᵀx + b is at least this far from 0 has the full colour of yes or no, before
        the band's colour is mixed in.
    dense : float
        A cell with at least this many items is opaque.
    theme : str
        "light" or "dark".
    """
    yes, no, ink, grey, paper = (
        _rgb(THEMES[theme][f"{name}Color"]) for name in ("blue", "orange", "text", "gray", "background")
    )
    pale = (grey + paper) / 2
    side = np.clip(cells.mean / furthest, -1, 1)[:, None]
    band = np.sqrt(in_band)[:, None]
    hue = pale + np.maximum(side, 0) * (yes - pale) + np.maximum(-side, 0) * (no - pale)
    many = np.minimum(1, np.log1p(cells.n_items) / np.log1p(max(dense, 1)))[:, None]
    opacity = np.maximum(LEAST_OPACITY + (1 - LEAST_OPACITY) * many, band)
    found: NDArray[np.uint8] = np.rint(np.hstack([hue + band * (ink - hue), 255 * opacity])).astype(np.uint8)
    return found


def png(cells: Cells, painted: NDArray[np.uint8], n_cells: int) -> bytes:
    """Return a tile of `n_cells` × `n_cells` pixels as PNG; row 0 is at the top."""
    pixels = np.zeros((n_cells, n_cells, 4), dtype=np.uint8)
    pixels[cells.row, cells.column] = painted
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _rgb(colour: str) -> NDArray[np.float64]:
    """Return a colour such as "#0B5FB0" as three numbers from 0 to 255."""
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], dtype=np.float64)
