from __future__ import annotations

from core.sources.arrays import Arrays
from core.sources.base import GREY_SIZE, Items, Problem, Source
from core.sources.cifar10 import Cifar10
from core.sources.described import Described
from core.sources.digits import Digits
from core.sources.enlarged import Enlarged
from core.sources.folder import Folder
from core.sources.newsgroups import Newsgroups
from core.sources.registry import KINDS, open_source
from core.sources.text_folder import TextFolder
from core.sources.text_table import TextTable
from core.sources.texts import Texts
from core.sources.tiny import TinyImages
from core.sources.words import source_from

__all__ = [
    "GREY_SIZE",
    "KINDS",
    "Arrays",
    "Cifar10",
    "Described",
    "Digits",
    "Enlarged",
    "Folder",
    "Items",
    "Newsgroups",
    "Problem",
    "Source",
    "TextFolder",
    "TextTable",
    "Texts",
    "TinyImages",
    "open_source",
    "source_from",
]

_IMAGES = (Arrays, Cifar10, Described, Digits, Enlarged, Folder, TinyImages)
_TEXTS = (Newsgroups, TextFolder, TextTable)
KINDS.update({source.kind: source for source in (*_IMAGES, *_TEXTS)})
