"""The experiment of the H-Hash paper as a command: ``closecall compare``.

The command runs races between query strategies (`core.simulation.race`). The H-Hash paper is P. Jain,
S. Vijayanarasimhan, K. Grauman, "Hashing hyperplane queries to near points with applications to large-scale
active learning".
"""

from closecall.app.experiments.compare.command import compare

__all__ = ["compare"]
