"""The kinds of items that the start page offers, with the words for their sources (`core.sources.words`)."""

from __future__ import annotations

from dataclasses import dataclass

from closecall.app.projects.folders import existing_path, typed_path
from closecall.app.projects.uploaded_folders import UPLOAD
from closecall.core.errors import InputError
from closecall.core.pool.manifest import MANIFEST


@dataclass(frozen=True)
class Field:
    """A form field for a path on the machine that runs the server.

    Parameters
    ----------
    name : str
        Name of the field in `ImageChoice.word`.
    label, placeholder, hint : str
        Texts that the page shows.
    is_folder : bool
        Whether a folder is wanted. The page then offers folders to choose from.
    """

    name: str
    label: str
    placeholder: str
    hint: str
    is_folder: bool = False


@dataclass(frozen=True)
class ImageChoice:
    """A kind of images, vectors or texts.

    Parameters
    ----------
    label : str
        Display name.
    word : str
        The word for the source (`core.sources.words`), with the names of the fields in braces.
    fields : tuple of Field
        Fields to fill in.
    question : str
        Example of a question, shown in the field for the question while it is empty.
    can_be_enlarged : bool
        Whether shifted and flipped copies of the images can enlarge the pool.
    takes_examples : bool
        Whether users can upload example images, which requires that features can be computed from images.
    takes_models : bool
        Whether an image model can compute the features of the items.
    """

    label: str
    word: str
    fields: tuple[Field, ...] = ()
    question: str = "Is it a leaf?"
    can_be_enlarged: bool = False
    takes_examples: bool = True
    takes_models: bool = False


_HERE = "On the machine that runs Closecall."

CHOICES = {
    "folder": ImageChoice(
        "A folder of images",
        "{folder}",
        (
            Field(
                "folder",
                "Folder",
                "/data/herbarium",
                f"{_HERE} Subfolders are searched too.",
                is_folder=True,
            ),
        ),
        can_be_enlarged=True,
        takes_models=True,
    ),
    "upload": ImageChoice("A folder on your own computer", "{upload}", takes_models=True),
    "tar": ImageChoice(
        "Images in tar archives, such as WebDataset",
        "tar:{path}",
        (
            Field(
                "path",
                "Archive, folder or pattern",
                "/data/shards",
                f"{_HERE} Uncompressed .tar files, such as /data/shards/train-*.tar.",
            ),
        ),
        can_be_enlarged=True,
        takes_models=True,
    ),
    "images": ImageChoice(
        "Images in Parquet or Arrow files",
        "images:{file}",
        (
            Field(
                "file",
                "File, folder or pattern",
                "/data/food101/data",
                f"{_HERE} As Hugging Face's library datasets writes them. To name the columns of images and "
                "classes, add them after commas.",
            ),
        ),
        can_be_enlarged=True,
        takes_models=True,
    ),
    "remote": ImageChoice(
        "A folder of images on a server or in object storage",
        "{address}",
        (
            Field(
                "address",
                "Address",
                "s3://bucket/photos",
                "https:// of a server that lists its folders, s3://, gs:// or az://, without passwords.",
            ),
        ),
        can_be_enlarged=True,
        takes_models=True,
    ),
    "urls": ImageChoice(
        "A list of addresses of images",
        "urls:{file}",
        (
            Field(
                "file",
                "List",
                "/data/addresses.csv",
                f"{_HERE} A text file with one address per line, or a .csv, .jsonl or .parquet file. To name "
                "the columns of addresses and classes, add them after commas.",
            ),
        ),
        can_be_enlarged=True,
        takes_models=True,
    ),
    "video": ImageChoice(
        "Frames of videos",
        "video:{path}",
        (
            Field(
                "path",
                "Video or folder",
                "/data/clips",
                f"{_HERE} One frame a second. For another number of frames, write it and a colon before the "
                "path: 0.5:/data/clips.",
            ),
        ),
        can_be_enlarged=True,
        takes_models=True,
    ),
    "digits": ImageChoice(
        "Digits, drawn on demand", "digits:{items}", question="Is this a 7?", takes_models=True
    ),
    "cifar10": ImageChoice(
        "CIFAR-10, binary version",
        "cifar10:{path}",
        (
            Field(
                "path",
                "Archive or folder",
                "/data/cifar-10-binary.tar.gz",
                f"{_HERE} The official binary version.",
            ),
        ),
        question="Is it an airplane?",
        can_be_enlarged=True,
        takes_models=True,
    ),
    "arrays": ImageChoice(
        "My own embeddings",
        "arrays:{features},{images}",
        (
            Field(
                "features", "Features", "/data/embeddings.npy", f"{_HERE} .npy or Parquet, one row per image."
            ),
            Field(
                "images",
                "Images",
                "/data/images",
                f"{_HERE} A folder, or a list of files in the rows' order.",
                is_folder=True,
            ),
        ),
        takes_examples=False,
    ),
    "vectors": ImageChoice(
        "Vectors without images",
        "vectors:{file}",
        (
            Field(
                "file",
                "File",
                "/data/sift_base.fvecs",
                f"{_HERE} .npy, Parquet, .fvecs or .bvecs. To give classes, add a comma and a .npy or .txt "
                "file with one class per vector.",
            ),
        ),
        question="Is it a corner?",
        takes_examples=False,
    ),
    "points": ImageChoice(
        "Sets of points, such as local features",
        "points:{file}",
        (
            Field(
                "file",
                "File",
                "/data/features.npz",
                f"{_HERE} A .npz file with the arrays points and sizes. To give classes, add a comma and a "
                ".npy or .txt file with one class per set.",
            ),
        ),
        question="Is it a corner?",
        takes_examples=False,
    ),
    "texts": ImageChoice(
        "Texts, a folder or a table",
        "texts:{path}",
        (
            Field(
                "path",
                "Folder or table",
                "/data/letters",
                f"{_HERE} A folder of .txt files, or a .csv, .jsonl or .parquet file with a column “text”.",
            ),
        ),
        question="Is it a complaint?",
        takes_examples=False,
    ),
    "newsgroups": ImageChoice(
        "20 Newsgroups, by date",
        "newsgroups:{path}",
        (Field("path", "Archive or folder", "/data/20news-bydate.tar.gz", f"{_HERE} Headers are kept."),),
        question="Is it about space?",
        takes_examples=False,
    ),
    "pool": ImageChoice(
        "An existing pool",
        "{pool}",
        (
            Field(
                "pool",
                "Pool",
                "/data/pools/herbarium",
                f"{_HERE} As made by closecall pool build.",
                is_folder=True,
            ),
        ),
    ),
}


def _with_article(label: str) -> str:
    """Return a field's label as a part of a sentence: "a folder", "an archive or folder", "images"."""
    name = label.lower()
    if name.endswith("s"):
        return name
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def source_word(
    choice: str, paths: dict[str, str], *, items: int = 0, times: int = 1, model: str | None = None
) -> str:
    """Return the word (`core.sources.words`) for the source that a person has described in the form.

    `choice` is the key of the chosen kind in `CHOICES`, and `paths` has the entered paths by field name. If
    `model` is given, this image model computes the features. It is a path, followed by "#" and an output if
    the model has several.

    Raises
    ------
    InputError
        If a field is empty, or the pool's folder has no pool.
    """
    offered = CHOICES[choice]
    if choice == "upload":
        return f"onnx:{model}:{UPLOAD}" if model is not None else UPLOAD
    given = {name: path.strip() for name, path in paths.items()}
    for field in offered.fields:
        if not given.get(field.name):
            raise InputError(f"Enter {_with_article(field.label)}, such as {field.placeholder}")
    if choice == "pool" and existing_path(typed_path(given["pool"]) / MANIFEST) is None:
        raise InputError(f"{given['pool']} is not a pool: to build one, choose {CHOICES['folder'].label!r}")
    word = offered.word.format(items=items, **given)
    if offered.can_be_enlarged and times > 1:
        word = f"enlarged:{times}:{word}"
    return f"onnx:{model}:{word}" if offered.takes_models and model is not None else word
