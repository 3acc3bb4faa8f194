"""Hash families: vectors to bits that tend to agree for what belongs together.

Hyperplane families (`HyperplaneHasher`) look for points near a hyperplane, similarity families
(`SimilarityHasher`, by name in `FAMILIES`) for points like a point.
"""

from core.hashing.base import Codes, QueryCode
from core.hashing.boosted import BoostedPSH
from core.hashing.deep import DeepCodes
from core.hashing.hyperplane import BHHash, EHHash, HHash, HyperplaneHasher
from core.hashing.klsh import KernelizedLSH, KernelPCALSH, NystromLSH
from core.hashing.learned import LBHHash
from core.hashing.lsh import RandomHyperplaneLSH
from core.hashing.metric_lsh import MetricLSH
from core.hashing.similarity import SimilarityHasher

FAMILIES: dict[str, type[SimilarityHasher]] = {
    cls.name: cls
    for cls in (
        RandomHyperplaneLSH,
        MetricLSH,
        KernelizedLSH,
        KernelPCALSH,
        NystromLSH,
        BoostedPSH,
        DeepCodes,
    )
}

__all__ = [
    "FAMILIES",
    "BHHash",
    "BoostedPSH",
    "Codes",
    "DeepCodes",
    "EHHash",
    "HHash",
    "HyperplaneHasher",
    "KernelPCALSH",
    "KernelizedLSH",
    "LBHHash",
    "MetricLSH",
    "NystromLSH",
    "QueryCode",
    "RandomHyperplaneLSH",
    "SimilarityHasher",
]
