"""Inputs and outputs of quantized TFLite networks are the bytes of the network's file, on every chip."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tpuc
from numpy.typing import NDArray
from tpuc.api import Uniform
from tpuc_driver.session import Boundary

from tests.families import each
from tests.frontends.tflite.files import Node, Tensor, tflite_file

Array = NDArray[Any]
DIMS = (2, 60)
STORED = Boundary(quant_input=True, quant_output=True)
OPS: dict[str, tuple[str | None, Callable[[Array, Array], Array]]] = {
    "ADD": ("AddOptions", np.add),
    "MAXIMUM": ("MaximumMinimumOptions", np.maximum),
    "RELU": (None, lambda a, _: np.maximum(a, 0)),
}
TYPES = (("UINT8", (128, 128, 128)), ("UINT8", (100, 128, 30)), ("INT8", (0, 0, 0)), ("INT8", (-128, 5, -20)))


def written(path: Path, op: str, kind: str, points: tuple[int, ...]) -> tuple[list[Tensor], Path]:
    options, count = OPS[op][0], 1 if op == "RELU" else 2
    scales = (0.05, 0.03, 0.04) if op == "ADD" else (0.05,) * 3
    points = points if op == "ADD" else points[:1] * 3
    tensors = [
        Tensor(name, DIMS, kind, None, (scale,), (point,))
        for name, scale, point in zip("aby", scales, points, strict=True)
    ]
    tensors = [tensors[0], tensors[2]] if count == 1 else tensors
    names = ["a", "b"][:count]
    node = Node(op, names, ["y"], (options, {}) if options else None)
    path.write_bytes(tflite_file(tensors, [node], names, ["y"]))
    return tensors, path


@pytest.mark.filterwarnings("ignore::tpuc.Remark")
@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "c", "cv181x")])
def test_files_take_and_return_the_networks_bytes(chip: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for op, (_, function) in OPS.items():
        for kind, points in TYPES:
            tensors, path = written(tmp_path / "net.tflite", op, kind, points)
            own = np.dtype(kind.lower())
            bounds = np.iinfo(own)
            x = {one.name: random.integers(bounds.min, bounds.max + 1, DIMS).astype(own) for one in tensors[:-1]}
            compiled = tpuc.load(path).compile(chip, boundary=STORED)
            elements = {one.name: one.element for one in (*compiled.inputs, *compiled.outputs)}
            for one in tensors:
                element = elements[one.name]
                assert isinstance(element, Uniform)
                wanted = (own.name.replace("uint", "u").replace("int", "i"), one.zeros[0])
                assert (element.storage.name, element.zero_point) == wanted, (op, kind, points, one.name)
            got = compiled.run(x)["y"]
            real = [(x[one.name].astype(float) - one.zeros[0]) * one.scales[0] for one in tensors[:-1]]
            last = tensors[-1]
            steps = function(real[0], real[-1]) / last.scales[0] + last.zeros[0]
            assert got.dtype == own
            assert np.abs(got.astype(float) - steps.clip(bounds.min, bounds.max)).max() <= 1.01, (op, kind, points)
