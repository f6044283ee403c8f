"""A batch as its images one after the other: never slower, and with the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_plan import group_layers, images

from benchmarks.architectures.graph import Graph

pytestmark = pytest.mark.chip("bm1684x")


def _network(path: Path, batch: int) -> None:
    """Convolutions whose values fit local memory for one image only, a residual sum, a slice of channels, and classes;
    also a product of the features of all images, and means over all.
    """
    random = np.random.default_rng(4)
    weights: list[Any] = []

    def weight(*shape: int) -> str:
        name = f"w{len(weights)}"
        array = random.standard_normal(shape) / np.sqrt(max(np.prod(shape[1:]), 1))
        weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def whole(*values: int) -> str:
        name = f"w{len(weights)}"
        weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    node = helper.make_node
    nodes = [
        node("Conv", ["x", weight(64, 8, 3, 3), weight(64)], ["a"], pads=[1] * 4),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", weight(64, 1, 3, 3), weight(64)], ["c"], pads=[1] * 4, group=64),
        node("Add", ["b", "c"], ["d"]),
        node("Slice", ["d", whole(16), whole(48), whole(1)], ["e"]),
        node("Concat", ["e", "d"], ["f"], axis=1),
        node("Conv", ["f", weight(32, 96, 1, 1), weight(32)], ["g"], strides=[2, 2]),
        node("GlobalAveragePool", ["g"], ["h"]),
        node("Reshape", ["h", whole(batch, 32)], ["i"]),
        node("Gemm", ["i", weight(10, 32), weight(10)], ["j"], transB=1),
        node("Softmax", ["j"], ["y"], axis=1),
        node("MatMul", ["i", weight(32, 32)], ["k"]),
        node("Transpose", ["k"], ["l"], perm=[1, 0]),
        node("MatMul", ["i", "l"], ["m"]),
        node("ReduceMean", ["x"], ["n"], axes=[0, 2, 3]),
    ]
    outputs = ["y", "m", "n"]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (batch, 8, 96, 96))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def _built(path: Path) -> tuple[Any, Any, int]:
    session = Session(chip="bm1684x", quantize="f16")
    final, data, *_ = session.build(session.transform(path))
    loaded = session.chip.load(data)
    return final, loaded, loaded.timeline(session.chip.profiles[0]).cycles


def test_four_images_cost_no_more_than_four_runs(tmp_path: Path) -> None:
    _network(tmp_path / "one.onnx", 1)
    _network(tmp_path / "four.onnx", 4)
    _, single, cycles = _built(tmp_path / "one.onnx")
    final, together, every = _built(tmp_path / "four.onnx")
    names = [operation.name for operation in final.main.operations]
    assert any(name.endswith("_image3") for name in names)
    assert not any(name.startswith("m_image") for name in names)  # it reads all images
    assert every <= 4 * cycles
    x = np.random.default_rng(1).standard_normal((4, 8, 96, 96)).astype(np.float32)
    found, wanted = together.run({"x": x}), Interpreter(final).run({"x": x})
    for array, other in zip(found.values(), wanted.values(), strict=True):
        assert np.allclose(array, other, rtol=1e-5, atol=1e-6)
    own = np.concatenate([next(iter(single.run({"x": x[index : index + 1]}).values())) for index in range(4)])
    assert np.array_equal(own, next(iter(found.values())))


def test_networks_whose_ops_mix_what_inputs_begin_with(tmp_path: Path) -> None:
    """Rows of a matrix are no images: all kinds of ops, in a type that numpy lacks."""
    node = helper.make_node
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[1, 0]),
        node("MatMul", ["x", "t"], ["a"]),
        node("Softmax", ["a"], ["b"], axis=0),
        node("CumSum", ["b", "i"], ["c"]),
        node("Concat", ["c", "x"], ["d"], axis=1),
        node("LayerNormalization", ["d", "s"], ["e"], axis=-1),
        node("ArgMax", ["x"], ["f"], axis=1),
        node("ReduceMax", ["e"], ["g"], keepdims=0),
        node("Clip", ["e", "", "m"], ["y"]),
    ]
    constants = {"i": np.array(0), "s": np.ones(9, np.float32), "m": np.array(0.75, np.float32)}
    shapes = {"f": TensorProto.INT64, "g": TensorProto.FLOAT, "y": TensorProto.FLOAT}
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 5))],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in shapes.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "network.onnx").write_bytes(model.SerializeToString())
    x = np.random.default_rng(1).standard_normal((4, 5)).astype(np.float32)
    for mode in ("bf16", "f32"):
        session = Session(chip="bm1684x", quantize=mode)
        final, data, *_ = session.build(session.transform(tmp_path / "network.onnx"))
        found, wanted = session.chip.load(data).run({"x": x}), Interpreter(final).run({"x": x})
        for array, other in zip(found.values(), wanted.values(), strict=True):
            assert np.allclose(array, other, rtol=1e-2, atol=1e-2)


def _tokens(net: Graph) -> str:
    """Norms of tokens in one matrix, attention by head, windows, pictures of a video, resizing by rows."""
    x = net.conv(net.input(3, 4, 16, 16), 24)
    y = net.turn(net.reshape(net.resize(net.mean(x, 2, keep=False), 24, 24), 24, 576), 0, 2, 1)
    y = net.both("Add", y, net.attention(net.norm(y), 2))
    y = net.reshape(net.turn(net.reshape(y, 3, 8, 3, 8, 24), 0, 1, 3, 2, 4, 5), 9, 64, 24)
    return net.node("Softmax", [net.linear(net.norm(y), 10)], axis=-1)


def test_images_are_apart_in_matrices_of_tokens_heads_and_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images lie one after the other along the first axis, however many elements each has there."""
    late: list[str] = []

    def spied(planner: Any, plan: Any, context: Any) -> Any:
        late.extend(
            operation.op.name for operation in images.Batch(planner.module, images.batch_of(planner.module)).late
        )
        return images.plan_by_images(planner, plan, context)

    monkeypatch.setattr(group_layers, "plan_by_images", spied)
    for batch in (1, 4):
        net = Graph(batch)
        (tmp_path / f"{batch}.onnx").write_bytes(net.model(_tokens(net)).SerializeToString())
    _, single, cycles = _built(tmp_path / "1.onnx")
    late.clear()
    _, together, every = _built(tmp_path / "4.onnx")
    assert late == []
    # The kernel of one permutation is chosen for all images together: copies instead of two transposes of each image.
    assert every <= 1.004 * 4 * cycles
    x = np.random.default_rng(1).standard_normal((4, 3, 4, 16, 16)).astype(np.float32)
    (found,) = together.run({"x0": x}).values()
    own = np.concatenate([next(iter(single.run({"x0": x[index : index + 1]}).values())) for index in range(4)])
    assert np.array_equal(own, found)
    engine: Any = onnxruntime.InferenceSession(str(tmp_path / "4.onnx"), providers=["CPUExecutionProvider"])
    assert np.allclose(found, engine.run(None, {"x0": x})[0], rtol=0, atol=5e-3)
