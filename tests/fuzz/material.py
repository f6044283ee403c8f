"""A small network of ordinary ops, and samples for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

SHAPE = (1, 3, 8, 8)


def sample(seed: int) -> NDArray[np.float32]:
    """An input."""
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


def network() -> bytes:
    """Convolutions of both kinds, a pool, a table, a join and a product."""
    random = np.random.default_rng(1)
    weights = {"w1": (4, 3, 3, 3), "b1": (4,), "w2": (4, 1, 3, 3), "w3": (32, 5), "b3": (5,)}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2"], ["c2"], group=4),
        helper.make_node("Sigmoid", ["c2"], ["s2"]),
        helper.make_node("Mul", ["c2", "s2"], ["m2"]),
        helper.make_node("Concat", ["m2", "c2"], ["k"], axis=1),
        helper.make_node("Flatten", ["k"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["g"]),
        helper.make_node("Softmax", ["g"], ["out"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "n",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, (1, 5))],
        [
            numpy_helper.from_array((random.standard_normal(shape) * 0.3).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
