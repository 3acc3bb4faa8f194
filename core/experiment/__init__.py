from core.experiment.corpus import Corpus
from core.experiment.planes import Plane, single_planes
from core.experiment.simulation import sessions
from core.simulation.oracle import Oracle

__all__ = ["Corpus", "Oracle", "Plane", "sessions", "single_planes"]
