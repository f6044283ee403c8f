"""Sums, means and norms over channels in 16-bit floats: added in f32, rounded once, near the cost of the transfers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.conftest import RunVendor
from tests.families import each

SHAPES = [
    ((2, 24, 17, 19), (1,)),
    ((3, 70, 13, 19), (1,)),
    ((1, 2, 256, 256), (1,)),
    ((2, 100, 65), (1,)),
    ((1, 5, 7, 4, 30), (1, 2)),
]
"""With the reduced axes."""
Array = NDArray[Any]
Arrays = dict[str, Array]
DTYPES: dict[str, tuple[Any, float]] = {"f16": (np.float16, 2**-11), "bf16": (ml_dtypes.bfloat16, 2**-8)}
LEAST = 1e-6
"""Of the largest result: sums in f32."""
KINDS = ("ReduceMean", "ReduceSum", "ReduceL2")
OF_TRANSFERS = {"ReduceMean": 1.3, "ReduceL2": 1.9}
LOADED_BYTES, STORED_BYTES = 54, 41
"""Of a cycle."""


def reductions(kind: str, mode: str, work: Path) -> tuple[Session, bytes, Arrays, Arrays]:
    """A network that reduces every shape, its inputs, and exact results."""
    random = np.random.default_rng(1)
    inputs, wanted = dict[str, Array](), dict[str, Array]()
    nodes, outputs = list[NodeProto](), list[ValueInfoProto]()
    for index, (shape, axes) in enumerate(SHAPES):
        x, y, keepdims = f"x{index}", f"y{index}", index % 2
        factor = 300 if kind == "ReduceL2" else 1  # squares are beyond f16
        inputs[x] = random.normal(0.5, 1, shape).astype(np.float32) * factor
        stated: dict[str, Any] = {} if kind == "ReduceSum" else {"axes": axes}
        operands = [x, f"axes{index}"] if kind == "ReduceSum" else [x]
        nodes.append(helper.make_node(kind, operands, [y], keepdims=keepdims, **stated))
        wanted[y] = _exact(kind, inputs[x].astype(DTYPES[mode][0]).astype(np.float64), axes, keepdims=bool(keepdims))
        outputs.append(helper.make_tensor_value_info(y, TensorProto.FLOAT, wanted[y].shape))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in inputs.items()]
    numbers = [numpy_helper.from_array(np.array(axes), f"axes{index}") for index, (_, axes) in enumerate(SHAPES)]
    graph = helper.make_graph(nodes, "net", ends, outputs, numbers if kind == "ReduceSum" else [])
    path = work / "net.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    session = Session(chip="bm1684x", quantize=mode)
    return session, session.build(session.transform(path)).data, inputs, wanted


def _exact(kind: str, x: Array, axes: tuple[int, ...], *, keepdims: bool) -> Array:
    if kind == "ReduceL2":
        return np.sqrt((x * x).sum(axis=axes, keepdims=keepdims))
    return (x.mean if kind == "ReduceMean" else x.sum)(axis=axes, keepdims=keepdims)


@each(("kind", "mode"), [(kind, mode) for kind in KINDS for mode in DTYPES])
def test_values_across_lanes_are_added_in_f32(kind: str, mode: str, tmp_path: Path) -> None:
    session, data, inputs, wanted = reductions(kind, mode, tmp_path)
    got = session.chip.load(data).run(inputs)  # hazards are errors
    for (name, exact), value in zip(wanted.items(), got.values(), strict=True):
        error = np.abs(value.reshape(exact.shape) - exact)
        assert (error <= 1.01 * DTYPES[mode][1] * np.abs(exact) + LEAST * np.abs(exact).max()).all(), name


@pytest.mark.interop
@pytest.mark.parametrize("mode", DTYPES)
def test_the_vendors_model_gives_equal_norms(mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    session, data, inputs, _ = reductions("ReduceL2", mode, tmp_path)
    path = tmp_path / "net.bmodel"
    path.write_bytes(data)
    theirs = run_vendor(path, inputs)
    for name, ours in session.chip.load(data).run(inputs).items():
        assert np.array_equal(theirs[name].reshape(-1), ours.reshape(-1)), name


@each(
    ("kind", "shape"),
    [(kind, shape) for kind in OF_TRANSFERS for shape in ((1, 24, 128, 128), (1, 64, 56, 56), (1, 256, 14, 14))],
)
def test_reducing_channels_takes_about_as_long_as_the_transfers(
    kind: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, extents)
        for name, extents in (("x", shape), ("y", (1, 1, *shape[2:])))
    ]
    node = helper.make_node(kind, ["x"], ["y"], axes=[1])
    path = tmp_path / "net.onnx"
    graph = helper.make_graph([node], "net", ends[:1], ends[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    session = Session(chip="bm1684x", quantize="f16")
    loaded = session.chip.load(session.build(session.transform(path)).data)
    floor = 4 * np.prod(shape) * (1 / LOADED_BYTES + 1 / STORED_BYTES / shape[1])
    assert loaded.timeline(session.chip.profiles[0]).cycles < OF_TRANSFERS[kind] * floor
