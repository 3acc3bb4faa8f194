"""The paper's experiment as a command: ``marginalia compare``."""

from app.experiments.compare.command import compare

__all__ = ["compare"]
