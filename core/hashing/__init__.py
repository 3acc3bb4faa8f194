"""Hash families: vectors to bits that tend to agree for what belongs together."""

from core.hashing.base import Codes, QueryCode
from core.hashing.hyperplane import BHHash, EHHash, HHash, HyperplaneHasher
from core.hashing.learned import LBHHash

__all__ = ["BHHash", "Codes", "EHHash", "HHash", "HyperplaneHasher", "LBHHash", "QueryCode"]
