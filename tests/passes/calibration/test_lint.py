"""Faults put into samples are found; good samples give no remark."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.errors import CalibrationError
from tpuc.ir import Module
from tpuc_driver.data import Findings, SampleReader, inputs_of, open_samples, sample_statistics
from tpuc_driver.session import Session
from tpuc_driver.work import PortableModule, open_pool
from tpuc_ops import top
from tpuc_quantize.observers.collector import Counting, Kept
from tpuc_quantize.observers.progress_file import Progress
from tpuc_quantize.observers.sample_checks import lint

from tests.families import each
from tests.frontends.onnx.networks import network, node, read
from tests.models.datasets import calibration_set
from tests.models.networks import Network as Known
from tests.passes.graphs import CONTEXT, Network

BYTES = np.random.default_rng(3).integers(0, 256, (20, 1, 3, 8, 8)).astype(np.float32)
GOOD = (BYTES - 128) / 64


@pytest.fixture
def module() -> Module:
    net = Network(1, 3, 8, 8)
    defining = net.input.defining
    assert defining is not None
    defining.op = top.Input(mean=(128.0,) * 3, scale=(1 / 64,) * 3, pixel_format="rgb", channel_format="nchw")
    return net.finish(net.op(top.AvgPool(kernel_shape=(8, 8)), net.input))


def remarks(module: Module, folder: Path, images: NDArray[Any], **options: Any) -> str:
    np.savez(folder / "samples.npz", **{inputs_of(module)[0].name: images})
    said: list[str] = []
    session = Session(remark=said.append)
    session.calibrate(module, dataset=folder / "samples.npz", options={"lint": True, **options})
    return " ".join(said)


def test_good_samples_give_no_remark(module: Module, tmp_path: Path) -> None:
    assert remarks(module, tmp_path, GOOD) == ""


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (BYTES / 255, "was the mean subtracted?"),
        ((BYTES - 128) / 64 / 16, "scaled twice?"),
        (np.concatenate([GOOD[:-1], GOOD[-1:] * 0 + 0.5]), "samples.npz[19] is constant (0.5 everywhere)"),
        (np.concatenate([GOOD, GOOD[4:5]]), "samples.npz[20] is the same as an earlier sample (as "),
        (np.concatenate([GOOD, GOOD[:1] / 100]), "times as faint as usual"),
        (GOOD[:5], "Only 5 sample(s)"),
    ],
)
def test_each_fault_has_its_sentence(module: Module, tmp_path: Path, images: NDArray[Any], sentence: str) -> None:
    assert sentence in remarks(module, tmp_path, images.astype(np.float32))


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (
            BYTES,
            (
                "values in [0, 255], its mean and scale make bytes [-2, 1.984]: the samples were normalized with "
                "another mean or scale"
            ),
        ),
        (BYTES / 64, "the samples were normalized with another mean or scale."),
        ((BYTES - 128) / 64 / 255, "the samples were already scaled. Give arrays as the network takes them, or"),
    ],
)
def test_samples_that_contradict_the_description_are_an_error(
    module: Module, tmp_path: Path, images: NDArray[Any], sentence: str
) -> None:
    with pytest.raises(CalibrationError, match=re.escape(sentence)):
        remarks(module, tmp_path, images.astype(np.float32))


def test_strict_makes_an_error_of_it(module: Module, tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"the samples look wrong: .*Without --strict this is a remark"):
        remarks(module, tmp_path, BYTES / 255, strict=True)


def classifier(red: float, green: float, blue: float) -> Module:
    """Three classes, each the mean of a color times so much."""
    net = Network(1, 3, 8, 8)
    weights = np.diag(np.array([red, green, blue], np.float32)).reshape(3, 3, 1, 1)
    scaled = net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.build.weight("w", weights), net.none)
    return net.finish(net.op(top.AvgPool(kernel_shape=(8, 8)), scaled))


@each(
    ("factors", "run", "found"),
    [((1.0, 0.5, 3.0), 20, True), ((3.0, 0.5, 1.0), 5, False), ((1.0, 1.0, 1.0), 10, False)],
)
def test_no_more_samples_are_run_than_show_that_nothing_is_wrong(
    tmp_path: Path, factors: tuple[float, float, float], run: int, found: bool
) -> None:
    reds = np.random.default_rng(5).random((20, 1, 3, 8, 8)).astype(np.float32) + np.array([3, 0, 0]).reshape(3, 1, 1)
    module = classifier(*factors)
    inputs = inputs_of(module)
    np.savez(tmp_path / "samples.npz", **{inputs[0].name: reds.astype(np.float32)})
    with open_pool(1) as pool:
        samples = open_samples(inputs, tmp_path / "samples.npz", None, 0)
        seen = Findings(
            samples, tuple(entry for index in range(20) for entry in sample_statistics(SampleReader(samples), index))
        )
        looked = lint(PortableModule(module, CONTEXT.registry), seen, pool, CONTEXT, Counting(64))
    assert len(looked.runs) == run
    progress = Progress(samples, Counting(64))
    looked.enter(progress, Kept(frozenset({1, run - 1, run})))
    assert (progress.seen, sorted(progress.outputs)) == (run, [1, run - 1])
    (output,) = progress.outputs[1].values()
    assert output.reshape(3) == pytest.approx(reds[1, 0].mean(axis=(1, 2)) * factors, rel=1e-5)
    assert any("more confident on 20 of 20 samples" in finding for finding in looked.findings) == found


def test_exchanged_colors_show_in_a_classifier(network: Callable[[str], Known], tmp_path: Path) -> None:
    resnet = network("resnet8").module
    pytest.importorskip("onnx")
    assert remarks(resnet, tmp_path, _resnet_samples(resnet)) == ""
    assert "check RGB against BGR" in remarks(resnet, tmp_path, _resnet_samples(resnet)[:, :, ::-1])


_DATA: list[Path] = []


@pytest.fixture(autouse=True)
def _data(request: pytest.FixtureRequest) -> None:
    folder = request.config.getoption("--model-data")
    _DATA[:] = [folder] if folder else []


def _resnet_samples(module: Module) -> NDArray[Any]:
    return calibration_set("ic01", _DATA[0])[:40].reshape(-1, *inputs_of(module)[0].shape)


def test_masks_may_repeat_and_be_constant(tmp_path: Path) -> None:
    """A sample says nothing new only where all of its inputs do."""
    model = network([node("Mul", "x mask", "y")], {"x": [1, 6], "mask": [1, 6]}, ["y"])
    module, folder = read(model, tmp_path), tmp_path / "samples"
    folder.mkdir()
    for index in range(24):
        x = np.random.default_rng(min(index, 22)).normal(size=(1, 6)).astype(np.float32)
        mask = np.arange(6)[None] < (6 if index < 12 else 4)
        np.savez(folder / f"{index:02}.npz", x=x, mask=mask.astype(np.float32))
    said: list[str] = []
    Session(remark=said.append).calibrate(module, dataset=folder, options={"lint": True})
    (alike,) = [text for text in said if "Input" in text]
    assert alike.startswith(
        f"Inputs 'x', 'mask': {folder}/23.npz is the same as an earlier sample (as {folder}/22.npz)"
    )
