"""Networks over sequences: an encoder block of BERT's shape, a small vision transformer, GRU and LSTM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.families import each
from tests.turns import few_pairs, in_turn

onnxruntime = pytest.importorskip("onnxruntime")

LEAST_COSINE = {"f16": 0.999, "int8": 0.95}


class Net:
    """An ONNX graph with random weights."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(7)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, name: str, array: NDArray[np.generic]) -> str:
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def matrix(self, name: str, *shape: int, scale: float | None = None) -> str:
        spread = scale if scale is not None else shape[0] ** -0.5
        return self.constant(name, self.random.normal(0, spread, shape).astype(np.float32))

    def op(self, kind: str, inputs: list[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def linear(self, x: str, name: str, width: int, target: int) -> str:
        product = self.op("MatMul", [x, self.matrix(f"{name}_w", width, target)], f"{name}_m")
        return self.op("Add", [product, self.matrix(f"{name}_b", target, scale=0.1)], name)

    def norm(self, x: str, name: str, width: int) -> str:
        gamma = self.constant(f"{name}_g", self.random.uniform(0.8, 1.2, width).astype(np.float32))
        return self.op("LayerNormalization", [x, gamma, self.matrix(f"{name}_b", width, scale=0.1)], name, axis=-1)

    def block(self, x: str, name: str, tokens: int, width: int, heads: int) -> str:
        """Attention and a GELU layer, each with its residual and normalization."""
        apart = self.constant(f"{name}_apart", np.array([1, tokens, heads, width // heads], np.int64))
        joined = self.constant(f"{name}_joined", np.array([1, tokens, width], np.int64))

        def head(part: str, order: list[int]) -> str:
            y = self.op("Reshape", [self.linear(x, f"{name}_{part}", width, width), apart], f"{name}_{part}r")
            return self.op("Transpose", [y], f"{name}_{part}t", perm=order)

        query, key, value = head("q", [0, 2, 1, 3]), head("k", [0, 2, 3, 1]), head("v", [0, 2, 1, 3])
        scale = self.constant(f"{name}_scale", np.float32((width // heads) ** 0.5)[None])
        scores = self.op("Div", [self.op("MatMul", [query, key], f"{name}_s"), scale], f"{name}_d")
        mixed = self.op("MatMul", [self.op("Softmax", [scores], f"{name}_p", axis=-1), value], f"{name}_x")
        back = self.op("Transpose", [mixed], f"{name}_y", perm=[0, 2, 1, 3])
        context = self.linear(self.op("Reshape", [back, joined], f"{name}_c"), f"{name}_o", width, width)
        y = self.norm(self.op("Add", [context, x], f"{name}_a"), f"{name}_n", width)
        wide = self.linear(y, f"{name}_f", width, 4 * width)
        root, one = (self.constant(f"{name}_{k}", np.float32([v])) for k, v in (("root", 2**0.5), ("one", 1.0)))
        erf = self.op("Erf", [self.op("Div", [wide, root], f"{name}_e")], f"{name}_r")
        raised = self.op("Mul", [wide, self.op("Add", [erf, one], f"{name}_1")], f"{name}_2")
        gelu = self.op("Mul", [raised, self.constant(f"{name}_half", np.float32([0.5]))], f"{name}_g")
        total = self.op("Add", [self.linear(gelu, f"{name}_z", 4 * width, width), y], f"{name}_t")
        return self.norm(total, f"{name}_l", width)

    def model(self, shape: list[int], output: str) -> onnx.ModelProto:
        source = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", [source], [result], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def encoder() -> onnx.ModelProto:
    net = Net()
    return net.model([1, 128, 768], net.block("x", "b", 128, 768, 12))


def vision() -> onnx.ModelProto:
    """Patches of 16x16, two blocks of ViT-tiny's width, the mean of all tokens, ten classes."""
    net = Net()
    filters = net.matrix("patch_w", 192, 3, 16, 16, scale=0.04)
    patches = net.op("Conv", ["x", filters], "patch", kernel_shape=[16, 16], strides=[16, 16])
    rows = net.op("Reshape", [patches, net.constant("flat", np.array([1, 192, 16], np.int64))], "rows")
    x = net.op("Transpose", [rows], "tokens", perm=[0, 2, 1])
    x = net.op("Add", [x, net.matrix("place", 1, 16, 192, scale=0.3)], "placed")
    for name in ("first", "second"):
        x = net.block(x, name, 16, 192, 3)
    mean = net.op("ReduceMean", [x], "mean", axes=[1], keepdims=0)
    return net.model([1, 3, 64, 64], net.linear(mean, "classes", 192, 10))


def recurrent(kind: str) -> onnx.ModelProto:
    net, hidden, width = Net(), 48, 32
    gates = {"LSTM": 4, "GRU": 3}[kind] * hidden
    weights = [net.matrix(n, 1, *shape, scale=0.2) for n, shape in (("w", (gates, width)), ("r", (gates, hidden)))]
    weights.append(net.matrix("b", 1, 2 * gates, scale=0.2))
    extra = {"linear_before_reset": 1} if kind == "GRU" else {}
    net.nodes.append(helper.make_node(kind, ["x", *weights], ["", "h"], name="layer", hidden_size=hidden, **extra))
    last = net.op("Reshape", ["h", net.constant("row", np.array([1, hidden], np.int64))], "last")
    return net.model([16, 1, width], net.linear(last, "classes", hidden, 10))


NETWORKS = {"encoder": encoder, "vision": vision, "lstm": lambda: recurrent("LSTM"), "gru": lambda: recurrent("GRU")}


SMALL = {name: make for name, make in NETWORKS.items() if name != "encoder"}


@each(
    ("name", "mode"),
    [
        *in_turn(SMALL, tuple(LEAST_COSINE), lambda _: "network", few_pairs),
        *(pytest.param("encoder", mode, marks=pytest.mark.slow) for mode in LEAST_COSINE),
    ],
)
def test_sequences_keep_their_direction(name: str, mode: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    model = NETWORKS[name]()
    path.write_bytes(model.SerializeToString())
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    inputs = {"x": np.random.default_rng(3).normal(0, 1, shape).astype(np.float32)}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    (expected,) = onnxruntime.InferenceSession(str(path), options).run(None, inputs)
    session = Session(chip="bm1684x", quantize=mode)
    module, table = session.transform(path), None
    if mode == "int8":
        np.savez(tmp_path / "samples.npz", x=inputs["x"])
        table = session.calibrate(module, dataset=tmp_path / "samples.npz", options={"tune_num": 0})
    data = session.build(module, table).data
    (result,) = session.chip.load(data).run(inputs).values()
    a, b = result.reshape(-1).astype(np.float64), expected.reshape(-1).astype(np.float64)
    assert a @ b / np.sqrt((a @ a) * (b @ b)) >= LEAST_COSINE[mode]
