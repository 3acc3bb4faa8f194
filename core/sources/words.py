"""Sources described by one word, as on the command line.

digits            a million handwritten digits, drawn on demand
digits:50000      50,000 handwritten digits
FOLDER            a folder of images; folder:FOLDER if its name could be mistaken for another source
cifar10:PATH      CIFAR-10, official binary version, archive or folder
tar:PATH          images in uncompressed tar archives, such as those of WebDataset: an archive, a folder of
                  them, or a pattern such as tar:shards/train-*.tar or tar:shards/train-{000..009}.tar
images:FILE       images in a column of Parquet or Arrow files, as the library datasets writes them: a file,
                  a folder of them or a pattern; images:FILE,IMAGE[,CLASS] names the columns
video:PATH        one frame per second of videos: a file, a folder of them or a pattern; video:RATE:PATH takes
                  RATE frames per second, such as video:0.5:PATH
ADDRESS           a folder of images on an HTTP server that lists its folders, or in object storage: https://…,
                  http://…, s3://…, gs://… or az://…
urls:FILE         images at the addresses in a list: a text file with one address per line, or a .csv,
                  .jsonl or .parquet file; urls:FILE,ADDRESS[,CLASS] names the columns
tiny:PATH         the binary file of the Tiny Images, or tiny:N:PATH for its first N images
newsgroups:PATH   20 Newsgroups by date, folder or archive
texts:FOLDER      a folder of text files
texts:FILE        a table with a column of texts: .csv, .jsonl or .parquet; texts:FILE,TEXT[,CLASS] names the
                  columns of texts and classes
arrays:FEATURES,IMAGES
                  embeddings (.npy, .parquet, .fvecs or .bvecs), and the folder or list of the images that
                  they describe
vectors:FILE      vectors without images, in the same formats; vectors:FILE,CLASSES adds a .npy or .txt file
                  with one class per vector; vectors:FILE,QUERIES adds a .fvecs or .bvecs file with queries
                  to hold out
points:FILE       sets of points, such as local features: a .npz file with the arrays points and sizes;
                  points:FILE,CLASSES adds a .npy or .txt file with one class per set
enlarged:N:SOURCE any other source of images, with N items for each image: itself and N − 1 variants
variants:N:POOL   the items of a pool, and variants of its features, N items in all, to test large pools
edges:SOURCE      any other source of images, with edge histograms as features instead of GIST
sets:SOURCE       any other source of images, with sets of local features, in sparse rows, instead of GIST
onnx:MODEL:SOURCE any other source of images, with features computed by a model in ONNX: MODEL is a file or a
                  folder (`core.onnx.model`); MODEL#OUTPUT names the output to use
"""

from __future__ import annotations

import re
from pathlib import Path

from closecall.core.errors import InputError
from closecall.core.files.typed import typed_path
from closecall.core.onnx.loading import model_named
from closecall.core.onnx.model import ImageModel
from closecall.core.onnx.runtime import CPU
from closecall.core.sources import vecs
from closecall.core.sources.arrays import Arrays
from closecall.core.sources.base import Source
from closecall.core.sources.cifar10 import Cifar10
from closecall.core.sources.described import Described
from closecall.core.sources.digits import Digits
from closecall.core.sources.embedded import Embedded
from closecall.core.sources.enlarged import Enlarged
from closecall.core.sources.folder import Folder
from closecall.core.sources.newsgroups import Newsgroups
from closecall.core.sources.packed import ImageTable, ImageTars, Videos
from closecall.core.sources.point_sets import PointSets
from closecall.core.sources.remote import AddressList, RemoteFolder
from closecall.core.sources.remote.address import STORES, WEB
from closecall.core.sources.text_folder import TextFolder
from closecall.core.sources.text_table import TextTable
from closecall.core.sources.tiny import TinyImages
from closecall.core.sources.variants import Variants
from closecall.core.sources.vectors import Vectors

FORMS = (
    "digits[:N], FOLDER, tar:PATH, images:FILE, video:[RATE:]PATH, ADDRESS, urls:FILE, cifar10:PATH, "
    "tiny:[N:]PATH, newsgroups:PATH, texts:PATH, arrays:FEATURES,IMAGES, vectors:FILE[,CLASSES|,QUERIES], "
    "points:FILE[,CLASSES], enlarged:N:SOURCE, edges:SOURCE, sets:SOURCE or onnx:MODEL:SOURCE"
)

_MATRIX = r".+?\.(?:npy|parquet|fvecs|bvecs)"
_SUFFIXES = ".npy, .parquet, .fvecs or .bvecs"


def source_from(word: str, *, seed: int = 0, use_classes: bool = True, provider: str | None = None) -> Source:
    """Make the source that `word` describes.

    Parameters
    ----------
    word : str
        A word in one of the forms that the module's docstring lists.
    seed : int
        Seed of drawn digits and variants.
    use_classes : bool
        Whether to use folder names as classes.
    provider : str, optional
        The execution provider of a model in ONNX (`core.onnx.runtime.PROVIDERS`). By default, it is the CPU
        for a new pool. A pool that is extended keeps its provider by default.

    Raises
    ------
    InputError
        If the word describes no source, or the source or the provider cannot be used.
    """
    _require_no_credentials(word)
    kind, _, rest = word.partition(":")
    if provider is not None and kind != "onnx":
        raise InputError(f"only models have a provider: {word!r} is not onnx:MODEL:SOURCE")
    if word == "digits":
        return Digits(seed=seed)
    if kind == "digits":
        return Digits(_count(rest, word), seed=seed)
    if kind == "cifar10":
        return Cifar10(_path(rest, word))
    if kind == "tar":
        return ImageTars(_path(rest, word), use_classes=use_classes)
    if kind == "images":
        return _image_table(rest, word)
    if kind == "video":
        number, colon, file = rest.partition(":")
        if colon and re.match(r"[-.]?\d", number):
            return Videos(_path(file, word), _rate(number, word), use_classes=use_classes)
        return Videos(_path(rest, word), use_classes=use_classes)
    if kind in (*WEB, *STORES) and rest.startswith("//"):
        return RemoteFolder(word, use_classes=use_classes)
    if kind == "urls":
        table = _table(rest)
        if table is None:
            return AddressList(_path(rest, word))
        return AddressList(_path(table[1], word), address=table[2], label=table[3])
    if kind == "tiny":
        number, colon, file = rest.partition(":")
        if colon and number[:1].isdecimal():
            return TinyImages(_path(file, word), _count(number, word))
        return TinyImages(_path(rest, word))
    if kind == "newsgroups":
        return Newsgroups(_path(rest, word))
    if kind == "texts":
        return _texts(rest, word, use_classes)
    if kind == "arrays":
        parts = re.fullmatch(rf"({_MATRIX}),(.+)", rest, flags=re.IGNORECASE)
        if parts is None:
            raise InputError(
                f"arrays needs a {_SUFFIXES} file, a comma, and a folder or list of images, got {word!r}"
            )
        return Arrays(_path(parts[1], word), _path(parts[2], word), use_classes=use_classes)
    if kind == "vectors":
        parts = re.fullmatch(rf"({_MATRIX})(?:,(.+))?", rest, flags=re.IGNORECASE)
        if parts is None:
            raise InputError(
                f"vectors needs a {_SUFFIXES} file, and for classes or queries a comma and their file, "
                f"got {word!r}"
            )
        path, second = _path(parts[1], word), _path(parts[2], word) if parts[2] else None
        if second is not None and second.suffix.lower() in vecs.TYPES:
            return Vectors(path, queries=second)
        return Vectors(path, second)
    if kind == "points":
        parts = re.fullmatch(r"(.+?\.npz)(?:,(.+))?", rest, flags=re.IGNORECASE)
        if parts is None:
            raise InputError(
                f"points needs a .npz file, and for classes a comma and their file, got {word!r}"
            )
        return PointSets(_path(parts[1], word), _path(parts[2], word) if parts[2] else None)
    if kind == "enlarged":
        times, _, inner = rest.partition(":")
        return Enlarged(
            source_from(inner, seed=seed, use_classes=use_classes), _count(times, word), seed=seed
        )
    if kind == "variants":
        number, _, inner = rest.partition(":")
        return Variants(_path(inner, word), _count(number, word), seed=seed)
    if kind == "edges":
        return Described(source_from(rest, seed=seed, use_classes=use_classes), "edges")
    if kind == "sets":
        return Described(source_from(rest, seed=seed, use_classes=use_classes), "sets")
    if kind == "onnx":
        model, inner = _model(rest, word, CPU if provider is None else provider)
        images = source_from(inner, seed=seed, use_classes=use_classes)
        return Embedded(images, model, is_chosen=provider is not None)
    path = _path(rest if kind == "folder" else word, word)
    if not path.exists():
        known = "" if path.is_absolute() else f"; a source is {FORMS}"
        raise InputError(f"there is no folder {path}{known}")
    return Folder(path, use_classes=use_classes)


def _model(rest: str, word: str, provider: str) -> tuple[ImageModel, str]:
    """Split `rest`, MODEL:SOURCE, into the loaded model and the word that describes the source of images.

    Both parts may contain colons. MODEL is the longest beginning of `rest` that names a model which can be
    loaded.
    """
    colons = [colon.start() for colon in re.finditer(":", rest) if colon.start() and rest[colon.end() :]]
    if not colons:
        raise InputError(f"onnx needs a model, a colon and a source of images, got {word!r}")
    refusal: InputError | None = None
    for colon in reversed(colons):
        try:
            if (model := model_named(rest[:colon], provider)) is not None:
                return model, rest[colon + 1 :]
        except InputError as error:
            refusal = error
    raise refusal or InputError(f"there is no model {rest[: colons[0]]}")


def _texts(rest: str, word: str, use_classes: bool) -> Source:
    table = _table(rest)
    if table is None:
        return TextFolder(_path(rest, word), use_classes=use_classes)
    return TextTable(_path(table[1], word), text=table[2], label=table[3])


def _table(rest: str) -> re.Match[str] | None:
    """Match FILE[,COLUMN[,COLUMN]]; return None if FILE does not have the extension of a table."""
    return re.fullmatch(r"(.+?\.(?:csv|jsonl|parquet))(?:,([^,]+))?(?:,([^,]+))?", rest, flags=re.IGNORECASE)


def _require_no_credentials(word: str) -> None:
    """Check that no address in the word has a part that may be secret, because words are stored and shown."""
    if address := re.search(r"([a-z]\w*)://(?:[^/]*@|[^?]*\?)", word, flags=re.IGNORECASE):
        raise InputError(
            f"an address that begins with {address[1]}:// must not have a user, password or query, because "
            "it is stored: put user and password into ~/.netrc, or signed addresses into a list (urls:FILE)"
        )


def _image_table(rest: str, word: str) -> ImageTable:
    columns = r"(?:,([^,]+))?(?:,([^,]+))?"
    named = re.fullmatch(rf"(.+?\.(?:parquet|arrow)){columns}", rest, flags=re.IGNORECASE)
    if named is None and not _path(rest, word).exists():
        named = re.fullmatch(rf"(.+?){columns}", rest)
    if named is None:
        return ImageTable(_path(rest, word))
    return ImageTable(_path(named[1], word), image=named[2], label=named[3])


def _count(number: str, word: str) -> int:
    plain = re.sub(r"[_,']", "", number)
    if not plain.isdecimal() or int(plain) < 1:
        raise InputError(f"{word!r} needs a number of at least 1, got {number!r}")
    return int(plain)


def _rate(number: str, word: str) -> float:
    if not re.fullmatch(r"\d+|\d*\.\d+", number):
        raise InputError(f"{word!r} needs a number of frames a second, such as 2 or 0.5, got {number!r}")
    return float(number)


def _path(text: str, word: str) -> Path:
    if not text:
        raise InputError(f"{word!r} names no file or folder; a source is {FORMS}")
    return typed_path(text)
