"""Residual sums in what two cores compute apart, in images, columns, and sequences: odd shapes, batches, ends."""

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

KINDS: Mapping[str, tuple[int, int]] = {"sequence": (0, 0), "line": (1, 0), "column": (0, 1), "image": (0, 7)}
"""Rows and columns of the input, 0 for those that the length states; sequences have one axis."""
CASES = [
    (kind, channels, *shape, last, mode)
    for kind, channels, shape, last, mode in product(
        KINDS, (40, 70, 5), ((1021, 1), (333, 1), (31, 1), (130, 2), (27, 3)), (False, True), ("f16", "int8")
    )
]
NEAR: Mapping[str, float] = {"f16": 0.01, "int8": 0.12}
"""Largest difference from ONNX Runtime in units of the largest value."""


def _extents(kind: str, length: int) -> tuple[int, ...]:
    return (length,) if kind == "sequence" else tuple(extent or length for extent in KINDS[kind])


def _network(path: Path, kind: str, channels: int, shape: tuple[int, ...], *, last: bool) -> None:
    """Two residual blocks, whose second convolution looks back only; `last`: their sum is an output."""
    random = np.random.default_rng(0)
    weights: list[Any] = []
    extents = [3 if extent > 1 else 1 for extent in shape[2:]]

    def weight(*dims: int) -> str:
        values = random.standard_normal(dims) / np.sqrt(np.prod(dims[1:]))
        weights.append(numpy_helper.from_array(values.astype(np.float32), f"w{len(weights)}"))
        return weights[-1].name

    def conv(x: str, y: str, width: int, step: int, *, back: bool = False) -> Any:
        around = [step * (extent // 2) for extent in extents]
        pads = [*(2 * one for one in around), *(0 for _ in around)] if back else around * 2
        dilations = [step] * len(extents)
        filters = weight(channels, width, *extents)
        return helper.make_node("Conv", [x, filters], [y], pads=pads, dilations=dilations)

    nodes = [conv("x", "a0", shape[1], 1)]
    for number, step in ((0, 1), (1, 3)):
        nodes.append(conv(f"a{number}", f"b{number}", channels, step))
        nodes.append(helper.make_node("Relu", [f"b{number}"], [f"c{number}"]))
        nodes.append(conv(f"c{number}", f"d{number}", channels, step, back=True))
        nodes.append(helper.make_node("Add", [f"d{number}", f"a{number}"], [f"e{number}"]))
        nodes.append(helper.make_node("Relu", [f"e{number}"], [f"a{number + 1}"]))
    if not last:
        strides = [2 if extent > 1 else 1 for extent in extents]
        nodes.append(helper.make_node("Conv", ["a2", weight(8, channels, *extents)], ["y"], strides=strides))
    output = helper.make_tensor_value_info("a2" if last else "y", TensorProto.FLOAT, None)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "network", [x], [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def _bits(arrays: Mapping[str, NDArray[Any]]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


@each(
    ("kind", "channels", "length", "batch", "last", "mode"),
    [pytest.param(*case, marks=[pytest.mark.slow] if number % 23 else []) for number, case in enumerate(CASES)],
)
def test_two_cores_give_the_results_of_one(
    kind: str, channels: int, length: int, batch: int, last: bool, mode: str, tmp_path: Path
) -> None:
    path, shape = tmp_path / "net.onnx", (batch, 12, *_extents(kind, length))
    _network(path, kind, channels, shape, last=last)
    x = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
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
            sums = [one for one in final.main.operations if one.op.name == "tpu.Add"]
            if length == 1021 and mode == "f16":
                assert all("cores" in one.extra_attributes for one in sums)
                if kind != "image":
                    assert len({one.extra_attributes["stripes"] for one in sums}) == 1, "in one cascade"
            loaded._runner.steps = tuple(part for stretch in stretches(loaded._parts) for part in reversed(stretch))
            found.append(loaded.run(x))
    (wanted,) = onnxruntime.InferenceSession(path).run(None, x)
    for arrays in found:
        (ours,) = arrays.values()
        assert np.abs(ours.reshape(wanted.shape) - wanted).max() <= NEAR[mode] * np.abs(wanted).max()
    assert _bits(found[1]) == _bits(found[2]), "the second core before the first"
    if mode == "int8":
        assert _bits(found[0]) == _bits(found[1])
