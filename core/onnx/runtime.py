"""Functions that load and run models with ONNX Runtime, and explain its errors.

ONNX Runtime runs a model on an *execution provider*. The default is the CPU, which gives the same bits
everywhere. Other providers are faster, but their results differ in the last digits. If a provider fails, ONNX
Runtime would silently use the CPU instead; here, this is an error.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from closecall.core.errors import InputError
from closecall.core.onnx.files import identity_of, missing_data
from closecall.core.onnx.kept import Kept

_QUIET = 4
"""Log level of ONNX Runtime: only fatal errors, because all other errors are raised as exceptions."""


CPU = "cpu"


class ProviderError(InputError):
    """Error for an execution provider that can't be used on this machine."""


@dataclass(frozen=True)
class Provider:
    """An execution provider.

    Parameters
    ----------
    label : str
        Display name.
    runtime_name : str
        Name in ONNX Runtime.
    cure : str
        What must be installed to use the provider, for error messages.
    options : dict
        Options for ONNX Runtime.
    """

    label: str
    runtime_name: str
    cure: str
    options: Mapping[str, str] = field(default_factory=dict)


PROVIDERS: Mapping[str, Provider] = {
    CPU: Provider("the CPU", "CPUExecutionProvider", "onnxruntime"),
    "cuda": Provider(
        "CUDA",
        "CUDAExecutionProvider",
        "onnxruntime-gpu, CUDA, cuDNN and a GPU of NVIDIA",
        # TF32 keeps three digits only, and a search for the fastest algorithm may end differently each time.
        {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"},
    ),
    "coreml": Provider("Core ML", "CoreMLExecutionProvider", "onnxruntime on a Mac"),
    "openvino": Provider("OpenVINO", "OpenVINOExecutionProvider", "onnxruntime-openvino"),
    "directml": Provider("DirectML", "DmlExecutionProvider", "onnxruntime-directml on Windows"),
}
"""The execution providers that a model may run on, by the names on the command line."""

_sessions: Kept[Any] = Kept(2)


def offered_providers() -> list[str]:
    """Return the names of the `PROVIDERS` that ONNX Runtime offers here, the CPU first.

    The list is empty if ONNX Runtime is not installed.
    """
    try:
        offered = _onnxruntime().get_available_providers()
    except InputError:
        return []
    return [name for name, provider in PROVIDERS.items() if provider.runtime_name in offered]


def open_session(file: Path, provider: str = CPU) -> Any:
    """Return the ONNX Runtime session of a model.

    On the CPU, a model runs in the calling thread. On other providers, its runs take turns. The most recent
    sessions are cached until their files change.

    Raises
    ------
    ProviderError
        If there is no such provider, or ONNX Runtime can't use it here or for this model.
    InputError
        If ONNX Runtime is not installed, or the file is not a model that it can load.
    """
    if provider not in PROVIDERS:
        raise ProviderError(f"provider must be one of {', '.join(PROVIDERS)}, got {provider!r}")
    if provider != CPU:
        return _sessions.get((identity_of(file), provider), lambda: _opened_on(PROVIDERS[provider], file))
    return _sessions.get(identity_of(file), lambda: _opened(file))


def _opened(file: Path) -> Any:
    runtime = _onnxruntime()
    try:
        return runtime.InferenceSession(str(file), _options(runtime), providers=[PROVIDERS[CPU].runtime_name])
    except Exception as error:  # ONNX Runtime does not export its exceptions
        if missing := ", ".join(part.name for part in missing_data(file)):
            raise InputError(f"{file} has its weights in other files: put {missing} beside it") from error
        raise InputError(f"{file} is not a model that ONNX Runtime can load: {_reason(error)}") from error


def _opened_on(provider: Provider, file: Path) -> Any:
    """Return the session of a model on a provider other than the CPU.

    The CPU runs those operations of the model that the provider does not support.
    """
    runtime, name = _onnxruntime(), provider.runtime_name
    if name not in runtime.get_available_providers():
        raise ProviderError(f"ONNX Runtime does not offer {provider.label} here: it needs {provider.cure}")
    options = _options(runtime)
    options.enable_mem_pattern = False  # DirectML can't use it
    options.use_deterministic_compute = True
    try:
        session = runtime.InferenceSession(
            str(file),
            options,
            providers=[(name, dict(provider.options)), PROVIDERS[CPU].runtime_name],
            enable_fallback=0,
        )
    except Exception as error:
        raise ProviderError(f"{provider.label} can't run {file}: {_reason(error)}") from error
    if name not in session.get_providers():
        raise ProviderError(
            f"ONNX Runtime offers {provider.label}, but can't start it here: it needs {provider.cure}"
        )
    session.disable_fallback()
    return _InTurn(session)


class _InTurn:
    """A session that makes one run at a time. DirectML requires this; on a single device it costs no time."""

    def __init__(self, session: Any) -> None:
        self._session, self._lock = session, threading.Lock()
        self.get_inputs, self.get_outputs = session.get_inputs, session.get_outputs

    def run(self, names: list[str], feed: dict[str, Any]) -> Any:
        with self._lock:
            return self._session.run(names, feed)


def _options(runtime: Any) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _QUIET
    return options


def outputs_of(
    session: Any, names: Sequence[str], feed: Mapping[str, Any], file: Path, *, of: str = "an image"
) -> list[Any]:
    """Run a model on the inputs `feed`, and return the outputs `names`. `of` names the input in messages.

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
"""Pattern of the place in ONNX Runtime's source code that an error message names."""

_KINDS = {"INVALID_PROTOBUF": "it is damaged, or no ONNX file", "NO_SUCHFILE": "there is no such file"}


def _reason(error: Exception) -> str:
    """Return the first line of an error message, without its status code and the place in ONNX Runtime."""
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
