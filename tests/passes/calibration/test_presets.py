"""Preprocessing under which a classifier recognizes nothing is named with a better preset; right ones are not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.ir import Module
from tpuc_driver.api.host import Alternative
from tpuc_driver.data import inputs_of, open_samples
from tpuc_driver.session import Session
from tpuc_driver.work import PortableModule, open_pool
from tpuc_ops import top
from tpuc_quantize.observers.collector import Counting
from tpuc_quantize.observers.preset_checks import more_confident_presets, score_outputs
from tpuc_quantize.observers.sample_checks import examine_values, lint

from tests.passes.graphs import Network

MEANS = np.random.default_rng(7).permutation(np.eye(3).repeat(8, 0)) * 180
PIXELS = np.clip(MEANS[:, :, None, None] + np.random.default_rng(8).integers(0, 60, (24, 3, 8, 8)), 0, 255)
"""Images of which each is mostly red, green, or blue, as bytes."""


def classifier(**said: Any) -> Module:
    """Three classes, the mean of a color each, for pixels from 0 to 1; without colors it is the first one."""
    net = Network(1, 3, 8, 8)
    defining = net.input.defining
    assert defining is not None
    if said:
        defining.op = top.Input(do_preprocess=True, pixel_format="rgb", channel_format="nchw", **said)
    weights = np.diag(np.array([10.0, 12.0, 11.0], np.float32)).reshape(3, 3, 1, 1)
    bias = net.build.weight("b", np.array([1.0, 0.0, 0.0], np.float32))
    scaled = net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.build.weight("w", weights), bias)
    return net.finish(net.op(top.AvgPool(kernel_shape=(8, 8)), scaled))


def findings(module: Module, file: Path) -> str:
    context = Session().context()
    inputs = inputs_of(module)
    with open_pool(1) as pool:
        seen = examine_values(open_samples(inputs, file, None, 0), pool, context, checks=True, force=False)
        return " ".join(lint(PortableModule(module, context.registry), seen, pool, context, Counting(64)).findings)


def found(module: Module, folder: Path, images: NDArray[Any]) -> str:
    np.savez(folder / "samples.npz", allow_pickle=False, **{inputs_of(module)[0].name: images.astype(np.float32)})
    return findings(module, folder / "samples.npz")


def test_the_right_scale_gives_no_remark(tmp_path: Path) -> None:
    assert found(classifier(), tmp_path, PIXELS / 255) == ""
    assert found(classifier(scale=(1 / 255,) * 3), tmp_path, PIXELS / 255) == ""


def test_a_network_that_sees_nothing_is_told_the_preset(tmp_path: Path) -> None:
    better = r"with preset [a-z, -]*yolo[a-z, -]* the network is more confident on 2\d of 24 samples"
    dark = PIXELS / 255 / 255
    text = found(classifier(scale=(1 / 65025,) * 3), tmp_path, dark)
    assert "its mean and scale make bytes [0, 0.003922]: were they scaled twice?" in text
    assert re.search(better, text)
    assert re.search(better, found(classifier(), tmp_path, dark))


def test_single_classes_and_plain_numbers_are_no_fault(tmp_path: Path) -> None:
    """Samples of one class explain nothing, and a network that is sure of them is right."""
    reds = PIXELS[PIXELS.mean((2, 3)).argmax(1) == 0]
    assert "preset" not in found(classifier(), tmp_path, np.concatenate([reds, reds + 1, reds + 2])[:24] / 255)


def test_the_verdict_is_that_of_probabilities_and_logits() -> None:
    logits = np.random.default_rng(3).normal(0, 3, (20, 5))
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    one, other = (score_outputs([{"x": row} for row in rows]) for rows in (logits, shares))
    assert one is not None
    assert other is not None
    assert one.confidence == pytest.approx(shares.max(1).mean())
    mean = shares.mean(0)
    entropies = -(shares * np.log(shares)).sum(1).mean(), -(mean * np.log(mean)).sum()
    assert one.information == pytest.approx(entropies[1] - entropies[0]) == other.information
    assert score_outputs([]) is None
    assert score_outputs([{"x": np.array([np.nan, 1.0])}] * 6) is None


def rows_of(logits: NDArray[Any]) -> list[dict[str, NDArray[Any]]]:
    return [{"y": row} for row in logits]


def test_surer_presets_are_found_by_paired_samples() -> None:
    """Not those that only enlarge the logits, nor those whose answers tell less, nor any of two classes."""
    random = np.random.default_rng(5)
    right = random.normal(0, 1, (24, 9)) + 6 * np.eye(9)[random.integers(0, 9, 24)]
    blurred = right * 0.7 + random.normal(0, 0.8, right.shape)
    turned = np.roll(blurred, 1, 1)
    always = np.eye(9)[np.zeros(24, int)] * 20 + random.normal(0, 0.1, right.shape)

    def names(now: NDArray[Any], *others: tuple[str, float, NDArray[Any]]) -> list[str]:
        ways = [Alternative((name,), 1, False, (factor,), (0.0,)) for name, factor, _ in others]
        columns = {name: rows_of(column) for name, _, column in others}

        def run(ways: Sequence[Alternative], places: Sequence[int]) -> Sequence[Sequence[Mapping[str, NDArray[Any]]]]:
            return [[rows_of(now)[place], *(columns[way.names[0]][place] for way in ways)] for place in places]

        return [way.names[0] for way, _, _ in more_confident_presets(ways, range(len(now)), run)]

    assert names(blurred, ("right", 1.0, right), ("same", 1.0, blurred), ("turned", 255.0, turned)) == ["right"]
    assert names(right, ("blurred", 1.0, blurred), ("turned", 1.0, turned)) == []
    assert names(right, ("larger", 255.0, right * 3), ("twice", 2.0, right * 2)) == []
    assert names(blurred, ("always one class", 1.0, always)) == []
    assert names(right * 0.3, ("without a doubt", 50.0, np.roll(right, 1, 1) * 50)) == []
    assert names(blurred[:, :2], ("right", 1.0, right[:, :2])) == []
    offset = np.where(right.argmax(1, keepdims=True) % 2, right, np.roll(right, 1, 1)) * 3 + 9 * (np.arange(9) % 2)
    assert names(right * 0.5, ("larger, with an offset that turns half of the classes", 1.0, offset)) == []


TRAINED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "resnet8": ("tflite/mlperf_tiny/ic01_resnet8_float32.tflite", "ic01", {"pixel_format": "rgb"}),
    "vww": ("tflite/mlperf_tiny/vww01_mobilenet025_96_float32.tflite", "vww01", {"preset": "yolo"}),
    "mnist": ("onnx/mnist.onnx", "mnist", {}),
    "lenet": ("caffe/lenet_mnist/deploy.prototxt", "mnist", {"scale": (1 / 256,)}),
    "mobilenet_v1": ("onnx/mobilenet_v1_0.25_128_bn.onnx", "imagenet", {"preset": "imagenet-tf"}),
    "mobilenet_v2": ("onnx/mobilenet_v2_1.0_224_dequant.onnx", "imagenet", {"preset": "imagenet-tf"}),
    "squeezenet": ("caffe/squeezenet_v1.0_deepcompressed/deploy.prototxt", "imagenet", {"preset": "caffe"}),
}
"""Trained classifiers, their data, and how they take them."""
FOUND = {
    "resnet8": (
        ({"preset": "imagenet-tf"}, "none"),
        ({"preset": "imagenet-torch"}, "none"),
        ({"preset": "yolo"}, "none"),
    ),
    "mobilenet_v1": tuple(({"preset": said}, "imagenet-tf") for said in ("caffe", "none", "yolo")),
    "squeezenet": (({"preset": "yolo"}, "caffe, ssd"), ({"preset": "imagenet-tf"}, "caffe, ssd")),
}
"""Wrong presets that are found, and what the sentence names."""


@pytest.mark.parametrize(
    "name",
    [name if name in ("resnet8", "mnist", "vww") else pytest.param(name, marks=pytest.mark.slow) for name in TRAINED],
)
def test_trained_classifiers(name: str, model_data: Path, tmp_path: Path) -> None:
    path, data, right = TRAINED[name]
    assert told(model_data / path, data, right, model_data, tmp_path) == ""
    for said, preset in FOUND.get(name, ()):
        text = told(model_data / path, data, said, model_data, tmp_path)
        assert "check mean, scale and channel order (--preprocess)" in text, said
        assert preset in text.split("with preset ")[1], said


@pytest.mark.slow
def test_a_missing_mean_and_exchanged_channels_are_found(model_data: Path, tmp_path: Path) -> None:
    """Where the classifier is less sure of most samples, which it recognizes all the same."""
    path, _, right = TRAINED["mobilenet_v2"]
    assert told(model_data / path, "imagenet_eval", right, model_data, tmp_path) == ""
    for said in ({"preset": "yolo"}, {"preset": "yolo", "pixel_format": "bgr"}, {"preset": "imagenet-torch"}):
        text = told(model_data / path, "imagenet_eval", said, model_data, tmp_path)
        assert "with preset imagenet-tf the network is more confident on" in text, said


def told(path: Path, data: str, said: Mapping[str, Any], model_data: Path, folder: Path) -> str:
    """What is said of presets where the network is transformed with this preprocessing."""
    weights = sorted(path.parent.glob("*.caffemodel")) if path.suffix == ".prototxt" else [None]
    module = Session().transform(path, preprocess=said, model_data=weights[0], batch=1)
    if data.startswith("imagenet"):
        samples = model_data / "data" / (data if "_" in data else f"{data}_calib")
    else:
        (one,) = inputs_of(module)
        own, samples = one.preprocess, folder / "samples.npz"
        with np.load(model_data / "data" / f"{data}_calib.npz") as stored:
            x = stored["x"] if stored["x"].ndim == 4 else stored["x"][..., None]
        values = own.normalize(x[..., ::-1] if own.pixel_format == "bgr" else x)
        arrays = {one.name: values if own.layout == "nhwc" else values.transpose(0, 3, 1, 2)}
        np.savez(samples, allow_pickle=False, **arrays)
    text = findings(module, samples)
    return text if "confiden" in text else ""
