"""TopK where a chip computes it from comparisons: values and places, any axis, equal elements, both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.errors import Unsupported
from tpuc_driver.session import Session
from tpuc_ops import top

CASES = (((1, 33), 1, 8, 1), ((2, 7, 5), 1, 3, 0), ((5,), 0, 2, 1))
"""Shape, axis, count, and whether the largest come first."""
SHOWN = [top.TopK(axis=axis, K=count, largest=bool(largest)) for _, axis, count, largest in CASES]


def write(path: Path) -> dict[str, NDArray[Any]]:
    """A network with one TopK per case, as `path`; returns its inputs, which bf16 holds."""
    random = np.random.default_rng(5)
    nodes: list[onnx.NodeProto] = []
    counts: list[onnx.TensorProto] = []
    inputs: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    feed: dict[str, NDArray[Any]] = {}
    for index, (shape, axis, count, largest) in enumerate(CASES):
        feed[f"x{index}"] = (random.integers(-20, 20, shape) / 4).astype(np.float32)
        names = ([f"x{index}", f"k{index}"], [f"v{index}", f"i{index}"])
        nodes.append(helper.make_node("TopK", *names, axis=axis, largest=largest))
        counts.append(numpy_helper.from_array(np.array([count]), f"k{index}"))
        inputs.append(helper.make_tensor_value_info(f"x{index}", TensorProto.FLOAT, shape))
        outputs += [onnx.ValueInfoProto(name=f"v{index}"), onnx.ValueInfoProto(name=f"i{index}")]
    graph = helper.make_graph(nodes, "ranks", inputs, outputs, counts)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return feed


def test_values_and_places_are_those_of_onnxruntime(tmp_path: Path) -> None:
    path = tmp_path / "ranks.onnx"
    feed = write(path)
    session = Session(chip="cv181x", quantize="bf16")
    found = session.chip.load(session.build(session.transform(path)).data).run(feed)
    wanted: Any = onnxruntime.InferenceSession(str(path)).run(None, feed)
    for got, right in zip(found.values(), wanted, strict=True):
        np.testing.assert_array_equal(got.reshape(right.shape), right)


def test_too_many_comparisons_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=1)
    ends = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("x", TensorProto.FLOAT, (100, 250)),
            ("v", TensorProto.FLOAT, None),
            ("i", TensorProto.INT64, None),
        )
    ]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [numpy_helper.from_array(np.array([3]), "k")])
    path = tmp_path / "many.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    session = Session(chip="cv181x", quantize="bf16")
    with pytest.raises(Unsupported, match="25000 times 250 comparisons are too many; select outside the network"):
        session.build(session.transform(path))
