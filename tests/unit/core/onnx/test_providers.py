"""Execution providers other than the CPU, with a stand-in for ONNX Runtime on a machine that has them."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from closecall.app.cli.main import main
from closecall.app.projects import pool_builder
from closecall.app.projects.config import ProjectFile
from closecall.app.projects.image_models import about_model, providers
from closecall.app.projects.pool_builder import Builder, Building
from closecall.app.projects.uploaded_images import note_on
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.core.features import of_image
from closecall.core.onnx import ImageModel, loading, runtime
from closecall.core.onnx.kept import Kept
from closecall.core.onnx.runtime import CPU, PROVIDERS, ProviderError, offered_providers
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from tests.onnx_kit import write_model

CUDA = "CUDAExecutionProvider"
APART = 1e-4
"""What the stand-in's GPU adds to each value: enough to see who computed it, and little enough to compare."""


class Session:
    """A session that computes on the CPU and claims to do so on other providers."""

    def __init__(self, real: Any, used: list[str]) -> None:
        self.real, self.used = real, used
        self.get_inputs, self.get_outputs = real.get_inputs, real.get_outputs
        self.falls_back = True
        self.running = self.most_at_once = 0

    def get_providers(self) -> list[str]:
        return self.used

    def disable_fallback(self) -> None:
        self.falls_back = False

    def run(self, names: list[str], feed: dict[str, Any]) -> list[Any]:
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        time.sleep(0)  # let another thread in
        values = self.real.run(names, feed)
        self.running -= 1
        if self.used == ["CPUExecutionProvider"]:
            return values
        return [value + APART for value in values]


class Machine:
    """ONNX Runtime on a machine with more providers: those it offers, and those of them that start."""

    SessionOptions = onnxruntime.SessionOptions

    def __init__(self, *offered: str, starts: bool = True, error: str | None = None) -> None:
        self.offered, self.starts, self.error = offered, starts, error
        self.asked: list[tuple[Any, dict[str, Any]]] = []
        self.sessions: list[Session] = []

    def get_available_providers(self) -> list[str]:
        return [*self.offered, "AzureExecutionProvider", "CPUExecutionProvider"]

    def InferenceSession(self, file: str, options: Any, *, providers: list[Any], **more: Any) -> Session:  # noqa: N802
        self.asked.append((providers, more))
        names = [one if isinstance(one, str) else one[0] for one in providers]
        if self.error and names != ["CPUExecutionProvider"]:
            raise RuntimeError(self.error)
        real = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        used = [name for name in names if name == "CPUExecutionProvider" or self.starts]
        self.sessions.append(Session(real, used))
        return self.sessions[-1]


@pytest.fixture
def at(monkeypatch):
    """Go to a machine, on which nothing has been loaded yet."""

    def go(machine: Machine) -> Machine:
        monkeypatch.setattr(runtime, "_onnxruntime", lambda: machine)
        monkeypatch.setattr(runtime, "_sessions", Kept(2))
        monkeypatch.setattr(loading, "_models", Kept(8))
        return machine

    return go


@pytest.fixture
def model(tmp_path) -> Path:
    return write_model(tmp_path / "models" / "small" / "model.onnx")


@pytest.fixture
def photos(tmp_path) -> Path:
    """Noise."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(12):
        noise(number).save(folder / f"{number:02}.png")
    return folder


def noise(seed: int = 99) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8))


def unit(vector: np.ndarray) -> np.ndarray:
    wide = vector.astype(np.float64)
    return wide / np.linalg.norm(wide)


def test_the_cpu_is_the_default_and_leaves_no_trace(at, model, photos, tmp_path):
    """Whatever else is offered: the CPU alone is asked for, and the spec is that of old pools."""
    machine = at(Machine(CUDA))
    pool = build(source_from(f"onnx:{model}:{photos}"), tmp_path / "pool")
    assert machine.asked == [(["CPUExecutionProvider"], {})]
    assert "provider" not in pool.source.spec()
    assert pool.source.note_on_new_images() is None
    explicit = source_from(f"onnx:{model}:{photos}", provider="cpu")
    assert explicit.spec() == source_from(f"onnx:{model}:{photos}").spec()


@pytest.mark.parametrize("name", [name for name in PROVIDERS if name != CPU])
def test_a_chosen_provider_runs_the_model(at, model, name):
    """ONNX Runtime is asked for it first, and told not to replace it by the CPU on its own."""
    machine = at(Machine(PROVIDERS[name].runtime_name))
    chosen = ImageModel(model, provider=name)
    (asked, more) = machine.asked[0]
    assert [asked[0][0], asked[1]] == [PROVIDERS[name].runtime_name, "CPUExecutionProvider"]
    assert more == {"enable_fallback": 0}
    assert not machine.sessions[0].falls_back
    assert np.allclose(chosen.features(noise()), ImageModel(model).features(noise()) + APART, atol=1e-6)
    assert f"in one thread with {PROVIDERS[name].label}." in chosen.about()[1]


def test_cuda_computes_in_full_precision(at, model):
    """TF32 would keep three digits only."""
    machine = at(Machine(CUDA))
    ImageModel(model, provider="cuda")
    assert machine.asked[0][0][0][1]["use_tf32"] == "0"


@pytest.mark.parametrize(
    ("machine", "provider", "sentence"),
    [
        (
            Machine(),
            "cuda",
            "ONNX Runtime does not offer CUDA here: it needs onnxruntime-gpu, CUDA, cuDNN and",
        ),
        (Machine(CUDA), "coreml", "ONNX Runtime does not offer Core ML here: it needs onnxruntime on a Mac"),
        (
            Machine(CUDA, starts=False),
            "cuda",
            "offers CUDA, but can't start it here: it needs onnxruntime-gpu",
        ),
        (
            Machine(CUDA, error="no kernel image\nmore"),
            "cuda",
            r"CUDA can't run .*model\.onnx: no kernel image$",
        ),
        (Machine(CUDA), "tpu", "provider must be one of cpu, cuda, coreml, openvino, directml, got 'tpu'"),
        (Machine(CUDA), "", "provider must be one of cpu, cuda, coreml, openvino, directml, got ''"),
    ],
)
def test_a_chosen_provider_that_fails_is_a_sentence(at, model, photos, tmp_path, machine, provider, sentence):
    """Nothing is built on the CPU instead, by us or by ONNX Runtime."""
    machine = at(machine)
    with pytest.raises(ProviderError, match=sentence):
        source_from(f"onnx:{model}:{photos}", provider=provider)
    words = [
        "pool",
        "build",
        f"onnx:{model}:{photos}",
        "--out",
        str(tmp_path / "pool"),
        "--provider",
        provider,
    ]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert not (tmp_path / "pool").exists()
    assert all(asked != ["CPUExecutionProvider"] for asked, _ in machine.asked)


def test_runs_take_turns(at, model):
    """On the CPU, they don't."""
    machine = at(Machine(CUDA))
    chosen = ImageModel(model, provider="cuda")
    threads = [
        threading.Thread(target=lambda: [chosen.features(noise()) for _ in range(20)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert machine.sessions[0].most_at_once == 1


def test_the_pool_keeps_its_provider(at, model, photos, tmp_path):
    """Uploads are described with it, and a folder that grew; a hyperplane is shared with pools of the CPU."""
    at(Machine(CUDA))
    pool = build(source_from(f"onnx:{model}:{photos}", provider="cuda"), tmp_path / "pool")
    assert json.loads((pool.path / "pool.json").read_text())["source"]["provider"] == "cuda"
    expected = ImageModel(model, provider="cuda").features(noise())
    assert np.allclose(of_image(noise(), Pool.open(pool.path).source), unit(expected), atol=1e-6)
    assert note_on(pool) is None
    noise(50).save(photos / "50.png")
    grown = build(source_from(f"onnx:{model}:{photos}"), pool.path)
    assert len(grown) + len(grown.held_out) == 13
    assert grown.source.spec()["provider"] == "cuda"
    expected = ImageModel(model, provider="cuda").features(noise(50))
    assert np.allclose(grown.rows_of(grown.ids[-1:])[0], unit(expected), atol=1e-6)
    plain = build(source_from(f"onnx:{model}:{photos}"), tmp_path / "plain")
    assert plain.feature_kind == grown.feature_kind


@pytest.mark.parametrize(
    ("first", "then", "sentence"),
    [
        ("cuda", "cpu", "described with the provider cuda, not with cpu: leave the provider out"),
        (None, "cuda", "described with the provider cpu, not with cuda: leave the provider out"),
    ],
)
def test_a_pool_is_not_continued_with_another_provider(at, model, photos, tmp_path, first, then, sentence):
    """Unless none is chosen."""
    at(Machine(CUDA))
    build(source_from(f"onnx:{model}:{photos}", provider=first), tmp_path / "pool")
    noise(50).save(photos / "50.png")
    with pytest.raises(InputError, match=sentence):
        build(source_from(f"onnx:{model}:{photos}", provider=then), tmp_path / "pool")
    assert len(Pool.open(tmp_path / "pool")) == 12


@pytest.mark.parametrize("elsewhere", [Machine(), Machine(CUDA, starts=False), Machine(CUDA, error="no GPU")])
def test_elsewhere_new_images_are_described_on_the_cpu_with_a_sentence(
    at, model, photos, tmp_path, elsewhere
):
    """Also where the provider is offered, but fails; the pool still says what described it."""
    at(Machine(CUDA))
    path = build(source_from(f"onnx:{model}:{photos}", provider="cuda"), tmp_path / "pool").path
    at(elsewhere)
    pool = Pool.open(path)
    plain = unit(ImageModel(model).features(noise()))
    assert np.allclose(of_image(noise(), pool.source), plain, atol=1e-6)
    note = note_on(pool)
    assert note == (
        "The pool was described with CUDA, which can't be used here: new images are described on the CPU, "
        "and their scores may differ in the last digits."
    )
    noise(50).save(photos / "50.png")
    words = ["pool", "build", f"onnx:{model}:{photos}", "--out", str(path), "--threads", "1"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert note in result.output
    assert Pool.open(path).source.spec()["provider"] == "cuda"


def test_what_has_no_model_has_no_provider(tmp_path):
    """On the command line, in one sentence."""
    words = ["pool", "build", "digits:100", "--out", str(tmp_path / "pool"), "--provider", "cuda"]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "only models have a provider: 'digits:100' is not onnx:MODEL:SOURCE" in result.output


def test_what_is_offered_here_is_offered_on_the_page(at, model):
    """With the CPU first; where ONNX Runtime is missing, nothing is."""
    at(Machine("DmlExecutionProvider", CUDA))
    assert offered_providers() == ["cpu", "cuda", "directml"]
    assert providers() == {"cpu": "the CPU", "cuda": "CUDA", "directml": "DirectML"}
    about = about_model(model, "cuda")
    assert f"About {100 / about.wait:,.0f} images per second in one thread with CUDA." in about.text
    at(Machine())
    assert providers() == {"cpu": "the CPU"}


def test_a_runtime_that_is_missing_offers_nothing(monkeypatch):
    def missing() -> None:
        raise InputError("models need onnxruntime")

    monkeypatch.setattr(runtime, "_onnxruntime", missing)
    assert offered_providers() == []


def test_a_project_builds_its_pool_with_the_chosen_provider(at, model, photos, tmp_path, monkeypatch):
    """Again after a restart; a pool that is there keeps its own."""
    at(Machine(CUDA))
    started: list[tuple[str, ...]] = []

    class Child:
        def poll(self) -> int:
            return 0

    def command(*words: str, nice: int) -> list[str]:
        started.append(words)
        return []

    monkeypatch.setattr(pool_builder.child, "command", command)
    monkeypatch.setattr(pool_builder.subprocess, "Popen", lambda *_, **__: Child())
    folder = tmp_path / "projects"
    for _ in range(2):
        with Workspace(folder) as workspace:
            if not workspace.served_keys():
                new = NewProject(f"onnx:{model}:{photos}", "Is it noise?", provider="cuda")
                workspace.create(new, key="noise")
            workspace.project("noise")
    assert ProjectFile.read(folder / "noise").provider == "cuda"
    assert [words[-2:] for words in started] == [("--provider", "cuda")] * len(started)
    assert len(started) >= 2
    pool = build(source_from(f"onnx:{model}:{photos}"), tmp_path / "pool")
    with Workspace(folder) as workspace:
        with pytest.raises(InputError, match="has been described already: leave the provider out"):
            workspace.create(NewProject(str(pool.path), "Is it noise?", provider="cuda"))
        with pytest.raises(InputError, match="only models have a provider"):
            workspace.create(NewProject("digits:100", "Is it a 7?", provider="cuda"))
        workspace.create(NewProject(str(pool.path), "Is it noise?"), key="plain")
    assert "provider" not in json.loads((folder / "plain" / "project.json").read_text())
    assert "--provider" not in Builder(pool.path, "x", tmp_path)._words


def test_a_description_is_computed_with_the_chosen_provider(at, model, photos, tmp_path):
    """On the command line and on the page; it is continued with its own."""
    at(Machine(CUDA))
    pool = build(source_from(str(photos)), tmp_path / "pool")
    with Workspace(tmp_path / "projects") as workspace:
        project = workspace.project(workspace.create(NewProject(str(pool.path), "Is it noise?")))
        started: list[Building] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Building, "start", lambda building: started.append(building))
            project.descriptions.build(str(model), "cuda")
        assert started[0]._words[-2:] == ["--provider", "cuda"]

    def describe(*words: str) -> Result:
        return CliRunner().invoke(main, ["describe", str(project.folder), *words])

    by = ("--by", str(model))
    assert describe(*by, "--provider", "cuda").exit_code == 0
    path = project.folder / "descriptions" / "model" / "pool"
    assert Pool.open(path).source.spec()["provider"] == "cuda"
    assert describe(*by).exit_code == 0
    assert Pool.open(path).source.spec()["provider"] == "cuda"
    for words, sentence in [
        (
            (*by, "--provider", "cpu"),
            "described with the provider cuda, not with cpu: leave the provider out",
        ),
        ((*by, "--provider", "tpu"), "provider must be one of cpu, cuda"),
        (("--by", "edges", "--provider", "cuda"), "only models have a provider: edges is none"),
        (("--provider", "cuda"), "--provider needs --by."),
    ]:
        result = describe(*words)
        assert result.exit_code == 2
        assert sentence in result.stderr
