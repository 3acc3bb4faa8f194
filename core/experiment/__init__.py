from closecall.core.experiment.corpus import Corpus
from closecall.core.experiment.planes import Plane, single_planes
from closecall.core.experiment.simulation import sessions
from closecall.core.simulation.oracle import Oracle

__all__ = ["Corpus", "Oracle", "Plane", "sessions", "single_planes"]
