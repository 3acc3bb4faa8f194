"""The paper's experiment as a command: ``closecall compare``."""

from closecall.app.experiments.compare.command import compare

__all__ = ["compare"]
