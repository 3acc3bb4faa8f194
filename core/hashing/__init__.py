"""Hash families: vectors to bits that tend to agree for what belongs together.

Hyperplane families (`HyperplaneHasher`) look for points near a hyperplane, similarity families
(`SimilarityHasher`, by name in `FAMILIES`) for points like a point.
"""

from core.hashing.base import Codes, QueryCode
from core.hashing.boosted import BoostedPSH
from core.hashing.deep import DeepCodes
from core.hashing.hyperplane import BHHash, EHHash, HHash, HyperplaneHasher
from core.hashing.klsh import KernelizedLSH, KernelPCALSH, NystromLSH
from core.hashing.ksh import SupervisedKernelHash
from core.hashing.ksh_learned import LearnedKernelHash
from core.hashing.learned import LBHHash
from core.hashing.lsh import RandomHyperplaneLSH
from core.hashing.metric_lsh import MetricLSH
from core.hashing.minhash import MinHash
from core.hashing.shift_invariant import ShiftInvariantHash
from core.hashing.similarity import SimilarityHasher
from core.hashing.spectral import SpectralHash

FAMILIES: dict[str, type[SimilarityHasher]] = {
    cls.name: cls
    for cls in (
        RandomHyperplaneLSH,
        MetricLSH,
        KernelizedLSH,
        KernelPCALSH,
        NystromLSH,
        SpectralHash,
        ShiftInvariantHash,
        SupervisedKernelHash,
        LearnedKernelHash,
        MinHash,
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
    "LearnedKernelHash",
    "MetricLSH",
    "MinHash",
    "NystromLSH",
    "QueryCode",
    "RandomHyperplaneLSH",
    "ShiftInvariantHash",
    "SimilarityHasher",
    "SpectralHash",
    "SupervisedKernelHash",
]
