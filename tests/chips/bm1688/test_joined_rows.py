"""Concatenations and slices in what two cores compute apart: odd shapes, batches, inside and last in the network."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import stretches
from tpuc_driver.session import Session

from tests.families import each

pytestmark = pytest.mark.chip("bm1688")

CHANNELS = ((32, 64), (64, 32, 32), (24, 40), (20, 13, 7))
CASES = [
    (channels, rows, batch, last, mode)
    for channels, (rows, batch), last, mode in product(
        CHANNELS, ((61, 1), (30, 1), (17, 2), (9, 3)), (False, True), ("f16", "int8")
    )
]
NEAR: Mapping[str, float] = {"f16": 0.01, "int8": 0.12}
"""Largest difference from ONNX Runtime in units of the largest value."""


def _network(path: Path, channels: tuple[int, ...], rows: int, batch: int, *, last: bool) -> None:
    """Two modules of convolutions whose results are joined, as in SqueezeNet; a slice of the first; `last`: the joined
    values are an output.
    """
    random = np.random.default_rng(0)
    weights: list[Any] = []

    def weight(*shape: int) -> str:
        values = random.standard_normal(shape) / np.sqrt(max(np.prod(shape[1:]), 1))
        weights.append(numpy_helper.from_array(values.astype(np.float32), f"w{len(weights)}"))
        return weights[-1].name

    def whole(*values: int) -> str:
        weights.append(numpy_helper.from_array(np.array(values, np.int64), f"w{len(weights)}"))
        return weights[-1].name

    node, total = helper.make_node, sum(channels)
    nodes = [node("Conv", ["x", weight(16, 3, 3, 3)], ["narrow"], pads=[1] * 4)]
    before, width = "narrow", 16
    for number in (0, 1):
        parts: list[str] = []
        for index, count in enumerate(channels):
            size, name = 3 if index % 2 else 1, f"part{number}{index}"
            nodes.append(node("Conv", [before, weight(count, width, size, size)], [name], pads=[size // 2] * 4))
            nodes.append(node("Relu", [name], [f"{name}r"]))
            parts.append(f"{name}r")
        nodes.append(node("Concat", parts, [f"joined{number}"], axis=1))
        if number == 0:
            nodes.append(node("Slice", ["joined0", whole(5), whole(total), whole(1)], ["some"]))
            nodes.append(node("Conv", ["some", weight(24, total - 5, 1, 1)], ["squeezed"]))
            before, width = "squeezed", 24
    if not last:
        nodes.append(node("MaxPool", ["joined1"], ["pooled"], kernel_shape=[3, 3], strides=[2, 2]))
        nodes.append(node("Conv", ["pooled", weight(8, total, 1, 1)], ["y"]))
    output = helper.make_tensor_value_info("joined1" if last else "y", TensorProto.FLOAT, None)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (batch, 3, rows, 60))
    graph = helper.make_graph(nodes, "network", [x], [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def _bits(arrays: Mapping[str, NDArray[Any]]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


@each(
    ("channels", "rows", "batch", "last", "mode"),
    [pytest.param(*case, marks=[pytest.mark.slow] if number % 21 else []) for number, case in enumerate(CASES)],
)
def test_two_cores_give_the_bits_of_one(
    channels: tuple[int, ...], rows: int, batch: int, last: bool, mode: str, tmp_path: Path
) -> None:
    path = tmp_path / "net.onnx"
    _network(path, channels, rows, batch, last=last)
    x = {"x": np.random.default_rng(1).standard_normal((batch, 3, rows, 60)).astype(np.float32)}
    np.savez(tmp_path / "samples.npz", **x)
    found: list[Mapping[str, NDArray[Any]]] = []
    for cores in (1, 2):
        session = Session(chip="bm1688", quantize=mode, cores=cores)
        module = session.transform(path)
        options: dict[str, Any] = {"method": "max", "options": {"tune_num": 0, "bias_num": 0}}
        table = None if mode == "f16" else session.calibrate(module, dataset=tmp_path / "samples.npz", **options)
        final, data, *_ = session.build(module, table)
        loaded = session.chip.load(data)
        loaded.check()
        loaded.check_memory()
        found.append(loaded.run(x))
        if cores == 2:
            joins = [one for one in final.main.operations if one.op.name in ("tpu.Concat", "tpu.Slice")]
            if rows == 61 and mode == "f16":
                assert any("cores" in one.extra_attributes for one in joins)
            loaded._runner.steps = tuple(part for stretch in stretches(loaded._parts) for part in reversed(stretch))
            found.append(loaded.run(x))
    assert _bits(found[0]) == _bits(found[1])
    assert _bits(found[0]) == _bits(found[2]), "the second core before the first"
    (wanted,) = onnxruntime.InferenceSession(path).run(None, x)
    (ours,) = found[1].values()
    assert np.abs(ours.reshape(wanted.shape) - wanted).max() <= NEAR[mode] * np.abs(wanted).max()
