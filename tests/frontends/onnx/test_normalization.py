"""Descriptions of pictures against what the first layers of a network take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tpuc.errors import InvalidModel
from tpuc.ir import Module
from tpuc.registry import Registry
from tpuc_driver.data import described
from tpuc_driver.session import Session

from tests.families import each
from tests.frontends.onnx.networks import network, node

DEVIATIONS = np.array([0.229, 0.224, 0.225], np.float32).reshape(1, 3, 1, 1)
MEANS = np.array([0.485, 0.456, 0.406], np.float32).reshape(1, 3, 1, 1)
FILTER = np.ones((2, 3, 1, 1), np.float32)


def imported(layers: list[onnx.NodeProto], weights: dict[str, Any], folder: Path, preset: str) -> Module:
    """A network that begins with these layers, with pictures as a preset says."""
    nodes = [*layers, node("Conv", "normalized filter", "y")]
    model = network(nodes, {"x": (1, 3, 4, 4)}, ["y"], {**weights, "filter": FILTER})
    onnx.save(model, folder / "net.onnx")
    return Session().transform(folder / "net.onnx", preprocess=described({"preset": preset}, Registry(), print))


OF_SHARES = [node("Sub", "x mean", "s"), node("Div", "s std", "normalized")]
OF_BYTES = [node("Div", "x largest", "share"), node("Sub", "share mean", "s"), node("Div", "s std", "normalized")]
WEIGHTS = {"mean": MEANS, "std": DEVIATIONS, "largest": np.float32(255)}
STATISTICS = {name: np.ones(3, np.float32) * value for name, value in {"g": 1, "b": 0, "m": 118, "v": 3400}.items()}
BATCH_NORM = [node("BatchNormalization", "x g b m v", "normalized")]


@each(
    ("layers", "weights", "preset"),
    [
        (OF_SHARES, {"mean": MEANS, "std": DEVIATIONS}, "yolo"),
        (OF_BYTES, WEIGHTS, "none"),
        (BATCH_NORM, STATISTICS, "none"),
        ([node("Sub", "x mean", "normalized")], {"mean": MEANS * 255}, "none"),
    ],
)
def test_descriptions_that_agree_with_the_first_layers(
    layers: list[onnx.NodeProto], weights: dict[str, Any], preset: str, tmp_path: Path
) -> None:
    imported(layers, weights, tmp_path, preset)


@each(
    ("layers", "weights", "preset", "layer", "ranges"),
    [
        (OF_SHARES, {"mean": MEANS, "std": DEVIATIONS}, "none", "normalized", "[-2.118, 1136] of [0, 255]"),
        (OF_BYTES, WEIGHTS, "imagenet-torch", "normalized", "[-2.154, -1.758] of [-2.118, 2.64]"),
        (BATCH_NORM, STATISTICS, "imagenet-tf", "normalized", "[-2.041, -2.007] of [-1, 1]"),
    ],
)
def test_descriptions_that_contradict_the_first_layers(
    layers: list[onnx.NodeProto], weights: dict[str, Any], preset: str, layer: str, ranges: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidModel) as error:
        imported(layers, weights, tmp_path, preset)
    found, _, given = ranges.partition(" of ")
    assert str(error.value) == (
        f"{tmp_path / 'net.onnx'}: input 'x' is also normalized by the network ('{layer}'): mean and scale turn "
        f"bytes into {given}, and the network turns these into {found}. Correct the preprocessing options, or "
        "pass bytes with --preprocess none."
    )
