from __future__ import annotations

from closecall.core.sources.arrays import Arrays
from closecall.core.sources.base import GREY_SIZE, Items, Problem, Source
from closecall.core.sources.cifar10 import Cifar10
from closecall.core.sources.described import Described
from closecall.core.sources.digits import Digits
from closecall.core.sources.embedded import Embedded
from closecall.core.sources.enlarged import Enlarged
from closecall.core.sources.folder import Folder
from closecall.core.sources.newsgroups import Newsgroups
from closecall.core.sources.packed import ImageTable, ImageTars, Videos
from closecall.core.sources.point_sets import PointSets
from closecall.core.sources.registry import KINDS, open_source
from closecall.core.sources.remote import AddressList, RemoteFolder
from closecall.core.sources.text_folder import TextFolder
from closecall.core.sources.text_table import TextTable
from closecall.core.sources.texts import Texts
from closecall.core.sources.tiny import TinyImages
from closecall.core.sources.variants import Variants
from closecall.core.sources.vectors import Vectors
from closecall.core.sources.words import source_from

__all__ = [
    "GREY_SIZE",
    "KINDS",
    "AddressList",
    "Arrays",
    "Cifar10",
    "Described",
    "Digits",
    "Embedded",
    "Enlarged",
    "Folder",
    "ImageTable",
    "ImageTars",
    "Items",
    "Newsgroups",
    "PointSets",
    "Problem",
    "RemoteFolder",
    "Source",
    "TextFolder",
    "TextTable",
    "Texts",
    "TinyImages",
    "Variants",
    "Vectors",
    "Videos",
    "open_source",
    "source_from",
]

_IMAGES = (Arrays, Cifar10, Described, Digits, Embedded, Enlarged, Folder, TinyImages)
_PACKED = (ImageTable, ImageTars, Videos)
_REMOTE = (AddressList, RemoteFolder)
_TEXTS = (Newsgroups, TextFolder, TextTable)
KINDS.update(
    {source.kind: source for source in (*_IMAGES, *_PACKED, *_REMOTE, *_TEXTS, PointSets, Variants, Vectors)}
)
