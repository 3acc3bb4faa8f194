"""Functions that load and run models with ONNX Runtime, and explain its errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from closecall.core.errors import InputError
from closecall.core.onnx.files import identity_of, missing_data
from closecall.core.onnx.kept import Kept

_QUIET = 4
"""Log level of ONNX Runtime: only fatal errors, because all others are raised as exceptions."""


_sessions: Kept[Any] = Kept(2)


def open_session(file: Path) -> Any:
    """Return the ONNX Runtime session of a model. It runs on the CPU, in the calling thread.

    The most recent sessions are cached until their files change.

    Raises
    ------
    InputError
        If ONNX Runtime is not installed, or the file is not a model that it can load.
    """
    return _sessions.get(identity_of(file), lambda: _opened(file))


def _opened(file: Path) -> Any:
    runtime = _onnxruntime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _QUIET
    try:
        return runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime does not export its exceptions
        if missing := ", ".join(part.name for part in missing_data(file)):
            raise InputError(f"{file} has its weights in other files: put {missing} beside it") from error
        raise InputError(f"{file} is not a model that ONNX Runtime can load: {_reason(error)}") from error


def outputs_of(
    session: Any, names: Sequence[str], feed: Mapping[str, Any], file: Path, *, of: str = "an image"
) -> list[Any]:
    """Run a model on the inputs `feed` and return the outputs `names`; `of` describes the input in messages.

    Raises
    ------
    InputError
        If the model fails on this input.
    """
    try:
        return list(session.run(list(names), dict(feed)))
    except Exception as error:
        raise InputError(f"the model {file} fails on {of}: {_reason(error)}") from error


_PLACE = re.compile(
    r"(?:Non-zero status code .*? Status Message: )?[\w/]+\.(?:cc|h):\d+ [\w:~]+(?:\([^)]*\))? "
)
"""Pattern of the location in ONNX Runtime's source code in an error message."""

_KINDS = {"INVALID_PROTOBUF": "it is damaged, or no ONNX file", "NO_SUCHFILE": "there is no such file"}


def _reason(error: Exception) -> str:
    """Return the first line of an error message, without the number and the name of the status."""
    line = str(error).strip().partition("\n")[0]
    status = re.match(r"\[ONNXRuntimeError\] : \d+ : (\w+) : (.*)", line)
    if status is None:
        return line or type(error).__name__
    return _KINDS.get(status[1], " ".join(_PLACE.sub(" ", status[2]).split()))


def _onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise InputError(
            f'models need onnxruntime, which cannot be imported ({error}): pip install "closecall[models]"'
        ) from error
    return onnxruntime
