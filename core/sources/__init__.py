from __future__ import annotations

from core.sources.arrays import Arrays
from core.sources.base import GREY_SIZE, Items, Problem, Source
from core.sources.cifar10 import Cifar10
from core.sources.digits import Digits
from core.sources.enlarged import Enlarged
from core.sources.folder import Folder
from core.sources.registry import KINDS, open_source
from core.sources.words import source_from

__all__ = [
    "GREY_SIZE",
    "KINDS",
    "Arrays",
    "Cifar10",
    "Digits",
    "Enlarged",
    "Folder",
    "Items",
    "Problem",
    "Source",
    "open_source",
    "source_from",
]

KINDS.update({source.kind: source for source in (Arrays, Cifar10, Digits, Enlarged, Folder)})
