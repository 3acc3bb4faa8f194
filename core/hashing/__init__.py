"""Hash families, which map vectors to binary codes that tend to agree for related vectors.

Hyperplane families (`HyperplaneHasher`) find points near a hyperplane. Similarity families
(`SimilarityHasher`, listed by name in `FAMILIES`) find points near a given point. `GeometricMinHash` finds
overlapping sets of local features.
"""

from closecall.core.hashing.base import Codes, QueryCode
from closecall.core.hashing.bh_hash import BHHash, LBHHash
from closecall.core.hashing.boosted import BoostedPSH
from closecall.core.hashing.deep import DeepCodes
from closecall.core.hashing.eh_hash import EHHash
from closecall.core.hashing.geometric_minhash import GeometricMinHash
from closecall.core.hashing.h_hash import HHash
from closecall.core.hashing.hyperplane import HyperplaneHasher
from closecall.core.hashing.klsh import KernelizedLSH, KernelPCALSH, NystromLSH
from closecall.core.hashing.ksh import SupervisedKernelHash
from closecall.core.hashing.ksh_learned import LearnedKernelHash
from closecall.core.hashing.lsh import RandomHyperplaneLSH
from closecall.core.hashing.metric_lsh import MetricLSH
from closecall.core.hashing.minhash import MinHash
from closecall.core.hashing.shift_invariant import ShiftInvariantHash
from closecall.core.hashing.similarity import SimilarityHasher
from closecall.core.hashing.spectral import SpectralHash

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
    "GeometricMinHash",
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
