from core.experiment.corpus import Corpus
from core.experiment.oracle import Oracle
from core.experiment.planes import Plane, single_planes
from core.experiment.simulation import sessions

__all__ = ["Corpus", "Oracle", "Plane", "sessions", "single_planes"]
