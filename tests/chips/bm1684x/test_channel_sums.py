"""Sums and means over channels in 16-bit floats: added in f32, rounded once, near the cost of the transfers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.families import each

SHAPES = [
    ((2, 24, 17, 19), (1,)),
    ((3, 70, 9, 11), (1,)),
    ((1, 2, 256, 256), (1,)),
    ((2, 100, 65), (1,)),
    ((1, 5, 7, 4, 30), (1, 2)),
]
"""With the reduced axes."""
Array = NDArray[Any]
DTYPES: dict[str, tuple[Any, float]] = {"f16": (np.float16, 2**-11), "bf16": (ml_dtypes.bfloat16, 2**-8)}
LEAST = 1e-6
"""Of the largest result: sums in f32."""
OF_TRANSFERS = 1.3
LOADED_BYTES, STORED_BYTES = 54, 41
"""Of a cycle."""


@each(("kind", "mode"), [(kind, mode) for kind in ("ReduceMean", "ReduceSum") for mode in DTYPES])
def test_values_across_lanes_are_added_in_f32(kind: str, mode: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    inputs, wanted = dict[str, Array](), dict[str, Array]()
    nodes, outputs = list[NodeProto](), list[ValueInfoProto]()
    for index, (shape, axes) in enumerate(SHAPES):
        x, y, keepdims = f"x{index}", f"y{index}", index % 2
        inputs[x] = random.normal(0.5, 1, shape).astype(np.float32)
        stated: dict[str, Any] = {"axes": axes} if kind == "ReduceMean" else {}
        operands = [x] if kind == "ReduceMean" else [x, f"axes{index}"]
        nodes.append(helper.make_node(kind, operands, [y], keepdims=keepdims, **stated))
        exact = inputs[x].astype(DTYPES[mode][0]).astype(np.float64)
        wanted[y] = (exact.mean if kind == "ReduceMean" else exact.sum)(axis=axes, keepdims=bool(keepdims))
        outputs.append(helper.make_tensor_value_info(y, TensorProto.FLOAT, wanted[y].shape))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in inputs.items()]
    numbers = [numpy_helper.from_array(np.array(axes), f"axes{index}") for index, (_, axes) in enumerate(SHAPES)]
    graph = helper.make_graph(nodes, "net", ends, outputs, numbers if kind == "ReduceSum" else [])
    path = tmp_path / "net.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    session = Session(chip="bm1684x", quantize=mode)
    loaded = session.chip.load(session.build(session.transform(path)).data)
    got = loaded.run(inputs)  # hazards are errors
    for (name, exact), value in zip(wanted.items(), got.values(), strict=True):
        error = np.abs(value.reshape(exact.shape) - exact)
        assert (error <= 1.01 * DTYPES[mode][1] * np.abs(exact) + LEAST * np.abs(exact).max()).all(), name


@each("shape", [(1, 24, 128, 128), (1, 64, 56, 56), (1, 256, 14, 14)])
def test_a_mean_over_channels_takes_about_as_long_as_its_transfers(shape: tuple[int, ...], tmp_path: Path) -> None:
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, extents)
        for name, extents in (("x", shape), ("y", (1, 1, *shape[2:])))
    ]
    node = helper.make_node("ReduceMean", ["x"], ["y"], axes=[1])
    path = tmp_path / "net.onnx"
    graph = helper.make_graph([node], "net", ends[:1], ends[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    session = Session(chip="bm1684x", quantize="f16")
    loaded = session.chip.load(session.build(session.transform(path)).data)
    floor = 4 * np.prod(shape) * (1 / LOADED_BYTES + 1 / STORED_BYTES / shape[1])
    assert loaded.timeline(session.chip.profiles[0]).cycles < OF_TRANSFERS * floor
