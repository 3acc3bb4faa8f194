"""A source of images whose features are computed by a model in ONNX (`core.onnx`).

The pool stores the model's path and digest, the chosen output and the preprocessing. The model is loaded when
features are first needed. If the model is missing, the pool can still be labeled, but features of new images,
such as uploads, can't be computed.

If the model is the vision model of a pair such as CLIP, the text model in the same folder maps words to
vectors that can be compared with the vectors of images. The pool stores the digest of the text model, too,
and any other text model is refused. If the text model was added after the build had begun, its digest is not
stored. The text model is accepted nevertheless if the vision model has not changed since the build. The
vectors of both models must have the same length. Whether the models were trained together can't be checked.

The pool also stores the model's execution provider, unless the provider is the CPU. The features of new
images are computed with the same provider. If the provider can't be used, the CPU computes the features, and
`Embedded.note_on_new_images` says so.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.onnx.files import digest_of, find_text_model
from closecall.core.onnx.loading import load_model, load_text_model
from closecall.core.onnx.model import ImageModel, Output
from closecall.core.onnx.preprocessing import Preprocessing
from closecall.core.onnx.runtime import CPU, PROVIDERS, ProviderError, offered_providers
from closecall.core.onnx.text import TextModel
from closecall.core.sources.base import Items, Problem, Source, UnreadableImageError, changed
from closecall.core.sources.other_features import OtherFeatures
from closecall.core.sources.passing import PassingError
from closecall.core.sources.registry import open_source


def model_name(file: Path) -> str:
    """Return the display name of a model: the names of its folder and file, ignoring a folder `onnx`."""
    folder = file.parent.parent if file.parent.name == "onnx" else file.parent
    return f"{folder.name}/{file.name}" if folder.name else file.name


class Embedded(OtherFeatures):
    """The images of `source`, with features computed by a model.

    Parameters
    ----------
    source : Source
        Source of images without features of its own.
    model : ImageModel
        The model, loaded with the execution provider that a new pool uses.
    is_chosen : bool
        Whether the user chose the provider. If not, a pool that is extended keeps its own provider.

    Raises
    ------
    InputError
        If the source has texts, or features of its own.
    """

    kind: ClassVar[str] = "onnx"
    is_slow: bool = True
    n_features: int

    def __init__(self, source: Source, model: ImageModel, *, is_chosen: bool = False) -> None:
        file = model.file.absolute()
        text = find_text_model(file)
        self._describe(
            source,
            file,
            model.digest,
            asdict(model.output),
            model.preprocessing.spec(),
            None if text is None else digest_of(*text),
            model.provider,
        )
        self._is_chosen = is_chosen
        self._model: ImageModel | None = model

    def _describe(
        self,
        source: Source,
        file: Path,
        digest: str,
        output: dict[str, Any],
        preprocessing: dict[str, Any],
        text_digest: str | None,
        provider: str,
    ) -> None:
        self.file = file
        super().__init__(source, self.model_name)
        self._digest = digest
        self._output = output
        self._preprocessing = preprocessing
        self._text_digest = text_digest
        self._provider = provider
        self._is_chosen = False
        self._fails = False  # whether the provider has failed
        self.n_features = output["n_features"]
        self.own_features = f"output {output['name']} of the ONNX model {self.model_name}, digest {digest}"
        self._model = None

    @property
    def model_name(self) -> str:
        """Display name of the model; see `model_name`."""
        return model_name(self.file)

    @property
    def model(self) -> ImageModel:
        """The model, loaded when first needed.

        Raises
        ------
        InputError
            If the model is missing, has changed or can't be loaded.
        """
        if self._model is None:
            try:
                model = self._loaded(self._provider)
            except ProviderError:
                self._fails = True
                model = self._loaded(CPU)
            if model.digest != self._digest or model.output != Output(**self._output):
                raise changed(self.file)
            self._model = model
        return self._model

    def _loaded(self, provider: str) -> ImageModel:
        steps = Preprocessing.from_spec(self._preprocessing)
        return load_model(self.file, output=self._output["name"], preprocessing=steps, provider=provider)

    def note_on_new_images(self) -> str | None:
        """See `Source.note_on_new_images`."""
        if self._provider == CPU or not (self._fails or self._provider not in offered_providers()):
            return None
        label = PROVIDERS[self._provider].label if self._provider in PROVIDERS else self._provider
        return (
            f"The pool was described with {label}, which can't be used here: new images are described on the "
            f"CPU, and their scores may differ in the last digits."
        )

    def spec(self) -> dict[str, Any]:
        """Return the spec of these features.

        It contains the spec of the images' source, all parameters of the features, and the digest of the text
        model.
        """
        text = {} if self._text_digest is None else {"text_digest": self._text_digest}
        provider = {} if self._provider == CPU else {"provider": self._provider}
        return {
            "kind": self.kind,
            "model": str(self.file),
            "digest": self._digest,
            "output": self._output,
            "preprocessing": self._preprocessing,
            **text,
            **provider,
            "source": self.source.spec(),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:
        """See `Source.from_spec`. The model is not loaded."""
        source = cls.__new__(cls)
        source._describe(
            open_source(spec["source"], folder),
            Path(spec["model"]),
            spec["digest"],
            spec["output"],
            spec["preprocessing"],
            spec.get("text_digest"),
            spec.get("provider", CPU),
        )
        return source

    @classmethod
    def feature_kind(cls, spec: dict[str, Any], folder: Path | None) -> str:  # noqa: ARG003
        """Return a name that is the same only for the same model, output and preprocessing.

        The treatment of 16-bit grayscale images does not matter: pools from before there was a choice have
        the same kind of features.
        """
        preprocessing = {name: value for name, value in spec["preprocessing"].items() if name != "stretch"}
        steps = hashlib.blake2b(json.dumps(preprocessing, sort_keys=True).encode(), digest_size=4)
        return f"model {spec['digest'][:16]}, {spec['output']['name']}, images {steps.hexdigest()}"

    def continuing(self, spec: dict[str, Any], folder: Path | None) -> Source:
        """See `Source.continuing`.

        Raises
        ------
        InputError
            If the features of the earlier pool come from another model, output or preprocessing, or from
            another provider than the user chose.
        """
        if spec.get("kind") != self.kind:
            return self
        if spec["digest"] != self._digest:
            raise InputError(
                f"the pool's features come from another model than {self.file}: build another pool"
            )
        if self.feature_kind(spec, folder) != self.feature_kind(self.spec(), None):
            raise InputError(
                f"the pool's features come from output {spec['output']['name']} of {self.file}, or from "
                f"images prepared in another way: build another pool"
            )
        provider = spec.get("provider", CPU)
        if self._is_chosen and provider != self._provider:
            raise InputError(
                f"the pool was described with the provider {provider}, not with {self._provider}: leave the "
                f"provider out, or build another pool"
            )
        earlier = self.source.continuing(spec["source"], folder)
        # These stay as they are in the earlier pool.
        text_digest, steps = spec.get("text_digest"), spec["preprocessing"]
        if earlier is self.source and (text_digest, provider, steps) == (
            self._text_digest,
            self._provider,
            self._preprocessing,
        ):
            return self
        continued = type(self)(earlier, self.model)
        continued._text_digest = text_digest
        if (provider, steps) != (continued._provider, continued._preprocessing):
            continued._provider, continued._preprocessing, continued._model = provider, steps, None
        return continued

    def without_folder_classes(self) -> Source:
        """See `Source.without_folder_classes`."""
        source = self.source.without_folder_classes()
        return self if source is self.source else type(self)(source, self.model, is_chosen=self._is_chosen)

    def features(self, items: Items) -> NDArray[np.float32]:
        """Return the model's vectors. Images that can't be read or have no usable vector get zeros."""
        rows = np.zeros((len(self.check_items(items)), self.n_features), dtype=np.float32)
        for row, item in enumerate(items.tolist()):
            if not isinstance(found := self._vector(item), str):
                rows[row] = found
        return rows

    def problem(self, item: int) -> Problem:
        """Return why an item has no features."""
        found = self._vector(item)
        reason = found if isinstance(found, str) else "it could not be read a moment ago"
        return Problem(item, self.name(item), reason)

    def about_features(self) -> list[str]:
        """See `Source.about_features`."""
        words = ["The images can be searched by words."] if self.has_text_model else []
        return [*self.model.about(), *words]

    @property
    def describes_images(self) -> bool:
        """See `Source.describes_images`."""
        return True

    @property
    def stretches_images(self) -> bool:
        """See `Source.stretches_images`."""
        return Preprocessing.from_spec(self._preprocessing).stretch

    def features_of_image(self, image: Image.Image) -> NDArray[np.float32]:
        """See `Source.features_of_image`."""
        return self._of_resized(self.model.resizing(*image.size).of(image))

    def _of_resized(self, image: Image.Image) -> NDArray[np.float32]:
        try:
            vector = self.model.features_of_resized(image)
        except MemoryError as error:
            reason = "there is not enough memory for the model"
            raise PassingError(f"{reason}: try again", reason) from error
        if not np.isfinite(vector).all():
            raise UnreadableImageError("the model's features of it are not finite")
        if not vector.any():
            raise UnreadableImageError("the model's features of it are all zero")
        return vector

    @property
    def has_text_model(self) -> bool:
        """See `Source.has_text_model`."""
        has_one = self._text_digest is not None or find_text_model(self.file) is not None
        return self._is_embedding and has_one

    def text_model(self) -> TextModel:
        """See `Source.text_model`."""
        if not self._is_embedding:
            raise InputError(
                f"words can't be compared with the {self._output['pooling']} of {self._output['name']}: "
                f"build another pool with the output image_embeds or pooler_output"
            )
        found = find_text_model(self.file)
        if found is None:
            raise InputError(
                f"{self.file} has no text model: search by words needs text_model.onnx and tokenizer.json "
                f"beside a vision_model.onnx"
            )
        if self._text_digest is None:
            _ = self.model  # raises InputError if it has changed since the pool was built
        model = load_text_model(*found)
        if self._text_digest not in (None, model.digest):
            raise changed(model.file)
        if model.n_features != self.n_features:
            raise InputError(
                f"{model.file} gives words {model.n_features:,} features, but {self.file} gave the images "
                f"{self.n_features:,}: they do not belong together"
            )
        return model

    @property
    def _is_embedding(self) -> bool:
        """Whether the output is one vector for the whole image. Only such outputs are compared with words."""
        return bool(self._output["pooling"] == "none")

    def _vector(self, item: int) -> NDArray[np.float32] | str:
        """Return the features of an item, or the reason why it has none."""
        try:
            return self._of_resized(self.resized_image(item, self.model.resizing))
        except UnreadableImageError as error:
            return str(error)
