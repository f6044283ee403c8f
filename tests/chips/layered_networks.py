"""Networks with layers of the processor at every place: between commands, at the ends, behind each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper
from tpuc.api import Module

from tests.chips.cv18.op_networks import Net
from tests.chips.pooled_regions import REGIONS, ROI_POOLING
from tests.frontends.caffe.files import Array, inputs, layer, read

DOUBLE = "power_param { power: 1 scale: 2 shift: 1 }"
SUM = "eltwise_param { operation: SUM }"


def _pooled(bottoms: str, top: str) -> str:
    return layer("ROIPooling", ROI_POOLING, bottoms, top, f"pool_{top}")


def _doubled(bottom: str, top: str) -> str:
    return layer("Power", DOUBLE, bottom, top, f"double_{top}")


def _reshaped(bottom: str, top: str, *dims: int) -> str:
    shape = " ".join(f"dim: {dim}" for dim in dims)
    return layer("Reshape", f"reshape_param {{ shape {{ {shape} }} }}", bottom, top, f"reshape_{top}")


TEXTS: dict[str, tuple[str, str]] = {
    "middle": (_doubled("x", "a") + _pooled("a r", "b") + _doubled("b", "y"), "TCT"),
    "first": (_pooled("x r", "a") + _doubled("a", "y"), "TCT"),
    "last": (_doubled("x", "a") + _pooled("a r", "y"), "TC"),
    "alone": (_pooled("x r", "y"), "TC"),
    "result reshaped": (_doubled("x", "a") + _pooled("a r", "b") + _reshaped("b", "y", 2, 4), "TCT"),
    "behind each other": (_doubled("x", "a") + _pooled("a r", "b") + _pooled("b r", "y"), "TCC"),
    "reshaped between": (
        _pooled("x r", "a") + _reshaped("a", "b", 1, 1, 2, 4) + _pooled("b r", "c") + _doubled("c", "y"),
        "TCTCT",
    ),
    "input read again": (
        _doubled("x", "a") + _pooled("a r", "b") + _pooled("x r", "c") + layer("Eltwise", SUM, "b c", "y", "sum"),
        "TCCT",
    ),
    "result read again": (
        _pooled("x r", "b") + _doubled("b", "c") + layer("Eltwise", SUM, "b c", "y", "sum"),
        "TCT",
    ),
    "joined": (_pooled("x r", "b") + _doubled("b", "c") + layer("Concat", "", "b c", "y", "join"), "TCT"),
    "parallel": (
        _doubled("x", "a")
        + _pooled("a r", "b")
        + _doubled("a", "c")
        + _pooled("c r", "d")
        + layer("Eltwise", SUM, "b d", "y", "sum"),
        "TCCT",
    ),
    "two results": (_doubled("x", "a") + _pooled("a r", "b") + _doubled("b", "y") + _doubled("a", "z"), "TCT"),
}
"""Layers, and the parts that they become: T commands of the TPU, C a layer of the processor."""


def read_layered(case: str, folder: Path) -> Module:
    """A network whose inputs are REGIONS."""
    return read(inputs(**{name: array.shape for name, array in REGIONS.items()}) + TEXTS[case][0], folder)


BEST = 40000
"""More than the chip ranks of a row that is too long to be counted."""


def write_best(path: Path, *, largest: int = 1) -> tuple[Path, dict[str, Array]]:
    """Twice the best half of 80,000 whole numbers along the middle dimension, and their places; with the numbers."""
    net = Net()
    two, count = net.constant("two", np.array(2, np.float32)), net.constant("count", np.array([BEST], np.int64))
    doubled = net.op("Mul", ["x", two], "doubled")
    net.nodes.append(
        helper.make_node("TopK", [doubled, count], ["best", "places"], name="best", axis=1, largest=largest)
    )
    net.op("Mul", ["best", two], "y")
    net.op("Cast", ["places"], "where", to=1)
    x = np.random.default_rng(5).integers(-9000, 9000, (1, 80000, 2)).astype(np.float32)
    return net.save(path, {"x": x.shape}, ["y", "where"]), {"x": x}
