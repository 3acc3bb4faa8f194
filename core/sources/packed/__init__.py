"""Images inside other files: in tar archives, in columns of Parquet and Arrow files, or frames of videos."""

from __future__ import annotations

from closecall.core.sources.packed.table import ImageTable
from closecall.core.sources.packed.tars import ImageTars
from closecall.core.sources.packed.videos import Videos

__all__ = ["ImageTable", "ImageTars", "Videos"]
