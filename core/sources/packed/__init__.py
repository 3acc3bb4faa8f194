"""Images inside other files: in tar archives, or in columns of Parquet and Arrow files."""

from __future__ import annotations

from closecall.core.sources.packed.table import ImageTable
from closecall.core.sources.packed.tars import ImageTars

__all__ = ["ImageTable", "ImageTars"]
