"""Operators that become several ops, or are written out, mean what ONNX Runtime computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tpuc.api import InvalidModel, PassContext, Unsupported
from tpuc_prequantized.drop_dynamic_quantization import drop_dynamic_quantization

from tests.families import each
from tests.frontends.onnx.networks import Array, assert_same, network, node, ops, read, registry, run_onnx, values


def check(model: onnx.ModelProto, folder: Path) -> list[str]:
    module = read(model, folder)
    assert_same(model, module)
    return ops(module)


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
LAYERS: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {}),
    ("RNN", {"direction": "reverse", "activations": ["Relu"]}),
    ("RNN", {"direction": "bidirectional", "activations": ["Tanh", "LeakyRelu"], "activation_alpha": [0.3]}),
    ("GRU", {"direction": "bidirectional"}),
    ("GRU", {"direction": "reverse", "linear_before_reset": 1}),
    ("GRU", {"clip": 0.4, "linear_before_reset": 1}),
    ("GRU", {"activations": ["HardSigmoid", "Softsign"], "activation_alpha": [0.3], "activation_beta": [0.6]}),
    ("LSTM", {"direction": "bidirectional"}),
    ("LSTM", {"direction": "reverse"}),
    ("LSTM", {"input_forget": 1, "clip": 0.5}),
    ("LSTM", {"activations": ["Sigmoid", "Relu", "Softplus"]}),
    (
        "LSTM",
        {"activations": ["Sigmoid", "LeakyRelu", "Affine"], "activation_alpha": [0.3, 0.7], "activation_beta": [0.4]},
    ),
    (
        "GRU",
        {
            "direction": "bidirectional",
            "activations": ["Sigmoid", "Elu", "HardSigmoid", "ScaledTanh"],
            "activation_alpha": [0.4, 0.3, 0.8],
            "activation_beta": [0.6, 0.9],
        },
    ),
]


@each(("op", "attributes"), LAYERS, ids=[f"{op}{i}" for i, (op, _) in enumerate(LAYERS)])
def test_recurrent_layers(op: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    ways, hidden = 1 + (attributes.get("direction") == "bidirectional"), 3
    rows = GATES[op] * hidden
    weights = {"w": values(ways, rows, 4), "r": values(ways, rows, hidden), "b": values(ways, 2 * rows)}
    outputs = ["y", "h", "c"][: 3 if op == "LSTM" else 2]
    layer = node(op, "x w r b", " ".join(outputs), hidden_size=hidden, **attributes)
    made = check(network([layer], {"x": [5, 2, 4]}, outputs, weights, opset=14), tmp_path)
    is_plain = not {"clip", "input_forget"} & attributes.keys() and attributes.get("activations", ["Relu"]) == ["Relu"]
    assert made.count(op) == is_plain  # the steps of others are written out


def test_recurrent_layer_with_states_lengths_and_peepholes(tmp_path: Path) -> None:
    weights = {"w": values(1, 12, 4), "r": values(1, 12, 3), "p": values(1, 9), "n": np.array([5, 2], np.int32)}
    layer = node("LSTM", "x w r - n h0 c0 p", "y h c", hidden_size=3)
    states = {"h0": [1, 2, 3], "c0": [1, 2, 3]}
    check(network([layer], {"x": [5, 2, 4], **states}, ["y", "h", "c"], weights, opset=14), tmp_path)


VOLUMES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), {}),
    ((2, 4, 5, 6, 7), (6, 2, 3, 3, 3), {"group": 2, "pads": [1, 0, 1, 1, 2, 0], "strides": [2, 1, 2]}),
    ((1, 2, 7, 6, 7), (3, 2, 3, 2, 2), {"dilations": [2, 1, 2], "pads": [1, 0, 2, 2, 0, 1]}),
    ((1, 2, 7, 6, 7), (3, 2, 3, 2, 2), {"strides": [2, 1, 2], "auto_pad": "SAME_UPPER"}),
]


@each(("x", "w", "attributes"), VOLUMES)
@each("is_constant", [False, True])
def test_conv_over_three_dimensions(
    x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any], is_constant: bool, tmp_path: Path
) -> None:
    weights = {"w": values(*w), "b": values(w[0])} if is_constant else {"b": values(w[0])}
    inputs = {"x": x} if is_constant else {"x": x, "w": w}
    assert check(network([node("Conv", "x w b", "y", **attributes)], inputs, ["y"], weights), tmp_path).count("Conv")


TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 4, 9), (4, 3, 3), {"strides": [2], "output_padding": [1], "pads": [1, 0]}),
    ((1, 4, 5, 6), (4, 3, 3, 2), {"group": 2, "dilations": [2, 1], "strides": [3, 2]}),
    ((1, 2, 5, 6), (2, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 5, 6), (2, 3, 3, 3), {"strides": [3, 2], "output_shape": [14, 12]}),
    ((2, 4, 3, 4, 5), (4, 3, 2, 3, 3), {"group": 2, "strides": [2, 1, 2], "pads": [0, 1, 1, 1, 0, 1]}),
    ((1, 2, 3, 4, 5), (2, 3, 2, 2, 2), {"dilations": [2, 1, 2], "strides": [3, 2, 2], "output_padding": [1, 0, 1]}),
]


@each(("x", "w", "attributes"), TRANSPOSED)
@each("is_constant", [False, True])
def test_transposed_conv(
    x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any], is_constant: bool, tmp_path: Path
) -> None:
    bias = {"b": values(w[1] * attributes.get("group", 1))}
    weights = {"w": values(*w), **bias} if is_constant else bias
    inputs = {"x": x} if is_constant else {"x": x, "w": w}
    check(network([node("ConvTranspose", "x w b", "y", **attributes)], inputs, ["y"], weights), tmp_path)


@each(
    ("op", "attributes", "made"),
    [
        ("MaxPool", {"kernel_shape": [2, 3, 2], "strides": [1, 2, 2], "pads": [1, 1, 0, 0, 1, 1]}, "MaxPool"),
        ("MaxPool", {"kernel_shape": [3, 2, 2], "strides": [2, 2, 2], "ceil_mode": 1}, "MaxPool"),
        ("MaxPool", {"kernel_shape": [3, 2, 3], "strides": [2, 1, 2], "auto_pad": "SAME_LOWER"}, "MaxPool"),
        ("AveragePool", {"kernel_shape": [2, 3, 2], "strides": [1, 2, 2], "pads": [1, 1, 0, 0, 1, 1]}, "AvgPool"),
        ("AveragePool", {"kernel_shape": [2, 3, 2], "pads": [1, 1, 0, 0, 1, 1], "count_include_pad": 1}, "AvgPool"),
        (
            "AveragePool",
            {"kernel_shape": [3, 2, 2], "strides": [2, 2, 2], "pads": [1, 0, 0] * 2, "ceil_mode": 1},
            "AvgPool",
        ),
        (
            "AveragePool",
            {
                "kernel_shape": [3, 2, 2],
                "strides": [2, 2, 2],
                "pads": [1, 0, 0] * 2,
                "ceil_mode": 1,
                "count_include_pad": 1,
            },
            "AvgPool",
        ),
        ("LpPool", {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2], "p": 3}, "AvgPool"),
    ],
)
def test_pools_over_three_dimensions(op: str, attributes: dict[str, Any], made: str, tmp_path: Path) -> None:
    model = network([node(op, "x", "y", **attributes)], {"x": [1, 2, 5, 6, 7]}, ["y"], opset=19)
    found = check(model, tmp_path)
    assert found.count(made) == 1
    assert not {"Conv", "Reshape"} & set(found)


@each("op", ["MaxPool", "AveragePool"])
def test_dilated_pools_over_three_dimensions(op: str, tmp_path: Path) -> None:
    window = {"kernel_shape": [2, 2, 2], "dilations": [2, 1, 3], "ceil_mode": 1, "strides": [2, 2, 2]}
    check(network([node(op, "x", "y", **window)], {"x": [1, 2, 5, 6, 7]}, ["y"], opset=19), tmp_path)


def test_pooling_forth_and_back(tmp_path: Path) -> None:
    nodes = [
        node("MaxPool", "x", "p i", kernel_shape=[2, 2], strides=[2, 2]),
        node("MaxUnpool", "p i", "y", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    check(network(nodes, {"x": [2, 3, 6, 8]}, ["y"]), tmp_path)


RESIZES: list[tuple[str, dict[str, Any]]] = [
    ("scales", {"mode": "cubic"}),
    ("scales", {"mode": "cubic", "coordinate_transformation_mode": "asymmetric", "exclude_outside": 1}),
    ("scales", {"mode": "linear", "antialias": 1}),
    ("scales", {"mode": "cubic", "antialias": 1, "cubic_coeff_a": -0.5}),
    ("scales", {"nearest_mode": "ceil", "coordinate_transformation_mode": "asymmetric"}),
    ("scales", {"nearest_mode": "round_prefer_ceil"}),
    ("sizes", {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}),
    ("sizes", {"mode": "cubic", "coordinate_transformation_mode": "align_corners"}),
]


@each(("given", "attributes"), RESIZES)
def test_resize_by_matrices(given: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    """Scales are exact in binary, so that ties are ties in every precision."""
    weights = {"scales": np.array([1, 1, 0.625, 1.75], np.float32), "sizes": np.array([1, 2, 5, 13])}
    operands = "x - scales" if given == "scales" else "x - - sizes"
    resize = node("Resize", operands, "y", **attributes)
    made = check(network([resize], {"x": [1, 2, 9, 8]}, ["y"], {given: weights[given]}, opset=19), tmp_path)
    assert set(made) == ({"Gather"} if "nearest_mode" in attributes else {"MatMul"})


def test_resize_of_a_part(tmp_path: Path) -> None:
    weights = {"roi": np.array([0, 0, 0.2, -0.1, 1, 1, 0.8, 1.2], np.float32), "sizes": np.array([1, 2, 4, 11])}
    attributes = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.0, "mode": "linear"}
    resize = node("Resize", "x roi - sizes", "y", **attributes)
    check(network([resize], {"x": [1, 2, 6, 8]}, ["y"], weights, opset=13), tmp_path)


EQUATIONS = [
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5), "MatMul"),
    ("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 5, 4), "MatMul"),
    ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5), "MatMul"),
    ("i,j->ji", (3,), (4,), "MatMul"),
    ("ij,ij->", (3, 4), (3, 4), "MatMul"),
    ("bi,i", (2, 3), (3,), "MatMul"),
    ("ij,jk->ik", (2, 1), (1, 5), "MatMul"),
]


@each(("equation", "x", "w", "op"), EQUATIONS)
def test_einsum(equation: str, x: tuple[int, ...], w: tuple[int, ...], op: str, tmp_path: Path) -> None:
    model = network([node("Einsum", "x w", "y", equation=equation)], {"x": x, "w": w}, ["y"])
    assert op in check(model, tmp_path)


@each(("equation", "op"), [("ij->ji", "Permute"), ("ij->j", "Reduce"), ("ij->", "Reduce")])
def test_einsum_of_one(equation: str, op: str, tmp_path: Path) -> None:
    made = check(network([node("Einsum", "x", "y", equation=equation)], {"x": [3, 4]}, ["y"]), tmp_path)
    assert op in made


def test_quantized_layers(tmp_path: Path) -> None:
    """Ties may fall either way in float32, so the scales keep away from them. Filters have 7 bits: without VNNI ONNX
    Runtime adds pairs of products in 16 bits, which saturate (its documentation calls the remedy `reduce_range`).
    """
    weights: dict[str, Array] = {
        "sx": np.array(0.037, np.float32),
        "zx": np.array(120, np.uint8),
        "w": np.random.default_rng(0).integers(-63, 64, (3, 2, 3, 3)).astype(np.int8),
        "sw": np.array([0.011, 0.013, 0.009], np.float32),
        "zw": np.zeros(3, np.int8),
        "sy": np.array(0.21, np.float32),
        "zy": np.array(130, np.uint8),
        "b": np.array([100, -2000, 30], np.int32),
    }
    nodes = [
        node("QuantizeLinear", "x sx zx", "q"),
        node("QLinearConv", "q sx zx w sw zw sy zy b", "c", pads=[1, 1, 1, 1]),
        node("DequantizeLinear", "c sy zy", "y"),
    ]
    made = check(network(nodes, {"x": [1, 2, 6, 6]}, ["y"], weights), tmp_path)
    assert [made.count(op) for op in ("QuantizeLinear", "Conv", "DequantizeLinear")] == [2, 1, 2]


def eight_bits(weight: Array, axis: tuple[int, ...], *, signed: bool = False) -> tuple[Array, Array, Array, Array]:
    """Integers, scale, zero point, and what they stand for; `axis` are the axes that share a scale. Signed ones
    have 7 bits, see `test_quantized_layers`.
    """
    low, high = weight.min(axis, keepdims=True, initial=0), weight.max(axis, keepdims=True, initial=0)
    scale = (np.maximum(-low, high) / 63 if signed else (high - low) / 255).astype(np.float32)
    zero = np.zeros_like(scale) if signed else np.rint(-low / scale)
    integers = np.clip(np.rint(weight / scale) + zero, -63 if signed else 0, 63 if signed else 255)
    real = ((integers - zero) * scale).astype(np.float32)
    dtype = np.int8 if signed else np.uint8
    return integers.astype(dtype), scale, zero.astype(dtype), real


def test_operands_that_are_quantized_as_they_come(tmp_path: Path) -> None:
    """As quantize_dynamic of ONNX Runtime writes it; without the rounding it is the network of floats over what the
    filters mean.
    """
    w, ws, wz, w_float = eight_bits(values(3, 2, 3, 3), (0, 1, 2, 3))
    m, ms, mz, m_float = eight_bits(values(6, 5, seed=3), (0,))
    weights = {"w": w, "ws": ws.reshape(()), "wz": wz.reshape(()), "m": m, "ms": ms.reshape(-1), "mz": mz.reshape(-1)}
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node("Mul", "s ws", "qs"),
        node("ConvInteger", "q w z wz", "c", pads=[1, 1, 1, 1]),
        node("Cast", "c", "d", to=TensorProto.FLOAT),
        node("Mul", "d qs", "e"),
        node("DynamicQuantizeLinear", "e", "q2 s2 z2"),
        node("MatMulInteger", "q2 m z2 mz", "f"),
        node("Cast", "f", "g", to=TensorProto.FLOAT),
        node("Mul", "s2 ms", "q2s"),
        node("Mul", "g q2s", "y"),
    ]
    floats = [node("Conv", "x w", "e", pads=[1, 1, 1, 1]), node("MatMul", "e m", "y")]
    reference = network(floats, {"x": [1, 2, 6, 6]}, ["y"], {"w": w_float, "m": m_float})
    model = network(nodes, {"x": [1, 2, 6, 6]}, ["y"], weights)
    assert "DynamicQuantizeLinear" in check(model, tmp_path)
    module = read(model, tmp_path)
    assert drop_dynamic_quantization(module, PassContext(registry())) == 2
    assert_same(reference, module)
    assert "DynamicQuantizeLinear" not in ops(module)


@each("reader", [node("Identity", "z", "other"), node("Neg", "s", "other"), None])
def test_dynamic_quantization_that_something_else_reads_is_computed(
    reader: onnx.NodeProto | None, tmp_path: Path
) -> None:
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node("MatMulInteger", "q w z", "f"),
        node("Cast", "f", "g", to=TensorProto.FLOAT),
        node("Mul", "g s", "y"),
        *([] if reader is None else [reader]),
    ]
    outputs = ["y", "s" if reader is None else "other"]
    weights: dict[str, Array] = {"w": np.random.default_rng(0).integers(-63, 64, (6, 5)).astype(np.int8)}
    made = check(network(nodes, {"x": [4, 6]}, outputs, weights), tmp_path)
    assert "DynamicQuantizeLinear" in made


def test_integers_without_their_zero_point_are_computed(tmp_path: Path) -> None:
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node("MatMulInteger", "q w", "f"),
        node("Cast", "f", "g", to=TensorProto.FLOAT),
        node("Mul", "g s", "y"),
    ]
    weights: dict[str, Array] = {"w": np.random.default_rng(0).integers(-63, 64, (6, 5)).astype(np.int8)}
    assert "DynamicQuantizeLinear" in check(network(nodes, {"x": [4, 6]}, ["y"], weights), tmp_path)


def test_lstm_of_8_bits_needs_constant_weights(tmp_path: Path) -> None:
    weights: dict[str, Array] = {"r": np.zeros((1, 3, 12), np.int8), "s": np.ones(1, np.float32)}
    weights["z"] = np.zeros(1, np.int8)
    layer = node("DynamicQuantizeLSTM", "x w r - - - - - s z s z", "y", domain="com.microsoft", hidden_size=3)
    model = network([layer], {"x": [5, 2, 4], "w": [1, 4, 12]}, ["y"], weights, opset=14)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(
        Unsupported, match=r"the matrix of weights is computed at run time \('w'\), but must be a const"
    ):
        read(model, tmp_path)


@each("per_gate", [False, True])
def test_lstm_of_8_bits(per_gate: bool, tmp_path: Path) -> None:
    """What ONNX Runtime's quantize_dynamic makes of LSTM: the same as of floats over what the weights mean."""
    shared = (1,) if per_gate else (1, 2)
    w, ws, wz, w_float = eight_bits(values(2, 4, 12), shared, signed=per_gate)
    r, rs, rz, r_float = eight_bits(values(2, 3, 12, seed=5), shared, signed=per_gate)
    ends = {"ws": ws, "wz": wz, "rs": rs, "rz": rz}
    weights = {
        "w": w,
        "r": r,
        "b": values(2, 24),
        **{k: one.reshape(2, -1) if per_gate else one.reshape(2) for k, one in ends.items()},
    }
    attributes: dict[str, Any] = {"hidden_size": 3, "direction": "bidirectional"}
    layer = node("DynamicQuantizeLSTM", "x w r b - - - - ws wz rs rz", "y h c", domain="com.microsoft", **attributes)
    model = network([layer], {"x": [5, 2, 4]}, ["y", "h", "c"], weights, opset=14)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    floats = {"w": w_float.transpose(0, 2, 1).copy(), "r": r_float.transpose(0, 2, 1).copy(), "b": weights["b"]}
    plain = node("LSTM", "x w r b", "y h c", **attributes)
    reference = network([plain], {"x": [5, 2, 4]}, ["y", "h", "c"], floats, opset=14)
    assert_same(reference, read(model, tmp_path))
    exact, rounded = (run_onnx(one, {"x": values(5, 2, 4)})["y"] for one in (reference, model))
    # States lie within -1 to 1: it is the same layer, rounded by the runtime.
    assert np.abs(exact - rounded).max() < 0.1


def test_integer_sums_take_an_integer_bias(tmp_path: Path) -> None:
    """What is rewritten in floats is still an integer to the operators behind it, which take two of one type."""
    weights: dict[str, Array] = {
        "sx": np.array(0.037, np.float32),
        "zx": np.array(120, np.uint8),
        "w": np.random.default_rng(0).integers(-127, 128, (3, 2, 3, 3)).astype(np.int8),
        "zw": np.array(3, np.int8),
        "b": np.array([100, -2000, 30], np.int32).reshape(1, 3, 1, 1),
        "s": np.array(0.037 * 0.011, np.float32),
    }
    nodes = [
        node("QuantizeLinear", "x sx zx", "q"),
        node("ConvInteger", "q w zx zw", "c", pads=[1, 1, 1, 1]),
        node("Add", "c b", "d"),
        node("Cast", "d", "e", to=TensorProto.FLOAT),
        node("Mul", "e s", "y"),
    ]
    made = check(network(nodes, {"x": [1, 2, 6, 6]}, ["y"], weights), tmp_path)
    assert "Cast" not in made
    assert made.count("Conv") == 1


def branch(name: str, operator: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph([operator], name, [], [onnx.ValueInfoProto(name=operator.output[0])])


@each("known", [False, True])
def test_if(known: bool, tmp_path: Path) -> None:
    branches = {
        "then_branch": branch("then", node("Add", "x one", "sum")),
        "else_branch": branch("else", node("Mul", "x x", "product")),
    }
    question = [] if known else [node("ReduceSum", "x", "total", keepdims=0), node("Greater", "total nothing", "is")]
    weights: dict[str, Array] = {"one": np.ones(1, np.float32), "nothing": np.zeros((), np.float32)}
    if known:
        weights["is"] = np.array(True)
    model = network([*question, node("If", "is", "y", **branches)], {"x": [2, 3]}, ["y"], weights)
    made = check(model, tmp_path)
    assert ("Where" in made) != known
    assert ("Mul" in made) != known


def body(steps: str) -> onnx.GraphProto:
    """Adds the step's number to the state and hands the state out; goes on while the step's number is below 3."""
    scalar = helper.make_tensor_value_info
    nodes = [
        node("Cast", "i", "f", to=TensorProto.FLOAT),
        node("Add", "state f", "next"),
        node("Identity", "next", "seen"),
        node("Less", f"i {steps}", "going"),
    ]
    return helper.make_graph(
        nodes,
        "body",
        [scalar("i", TensorProto.INT64, []), scalar("on", TensorProto.BOOL, []), scalar("state", 1, [2])],
        [scalar("going", TensorProto.BOOL, []), scalar("next", 1, [2]), scalar("seen", 1, [2])],
    )


@each("limit", [2, 9])
def test_loop(limit: int, tmp_path: Path) -> None:
    weights = {"limit": np.array(limit), "true": np.array(True), "three": np.array(3)}
    loop = node("Loop", "limit true x", "y all", body=body("three"))
    assert check(network([loop], {"x": [2]}, ["y", "all"], weights), tmp_path).count("AddConst") == min(limit, 4)


def test_loop_that_is_too_long_or_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpuc_onnx.control.MOST_STEPS", 20)
    weights = {"limit": np.array(9000), "true": np.array(True), "three": np.array(9000)}
    loop = node("Loop", "limit true x", "y all", body=body("three"))
    with pytest.raises(Unsupported, match=r"node 'Loop_y' \(Loop\): it runs more than 20 steps, too many"):
        read(network([loop], {"x": [2]}, ["y"], weights), tmp_path)
    nodes = [node("ReduceSum", "x", "s", keepdims=0), node("Cast", "s", "limit", to=TensorProto.INT64), loop]
    del weights["limit"]
    with pytest.raises(Unsupported, match=r"its trip count depends on the data \(tensor 'limit'\), but compiled"):
        read(network(nodes, {"x": [2]}, ["y"], weights), tmp_path)


def test_scan_in_both_directions(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    nodes = [node("Add", "state part", "next"), node("Mul", "next part", "seen")]
    inner = helper.make_graph(
        nodes, "body", [info("state", 1, [3]), info("part", 1, [3])], [info("next", 1, [3]), info("seen", 1, [3])]
    )
    scan = node(
        "Scan", "s x", "y all", body=inner, num_scan_inputs=1, scan_input_directions=[1], scan_output_directions=[1]
    )
    check(network([scan], {"s": [3], "x": [4, 3]}, ["y", "all"]), tmp_path)


def test_a_function_of_onnx_takes_its_operators_place(tmp_path: Path) -> None:
    made = check(network([node("ThresholdedRelu", "x", "y")], {"x": [2, 3]}, ["y"], opset=22), tmp_path)
    assert "Where" in made


def test_selu_takes_no_exponential_of_large_values(tmp_path: Path) -> None:
    """ONNX's own body does: one infinite value within, and the network cannot be calibrated."""
    scaled = [node("Mul", "x hundred", "far"), node("Selu", "far", "y")]
    made = check(network(scaled, {"x": [2, 3]}, ["y"], {"hundred": np.float32(100)}, opset=22), tmp_path)
    assert made.count("Elu") == 1
    assert "Exp" not in made


def test_attention_of_opset_23(tmp_path: Path) -> None:
    shapes = {"q": [1, 2, 4, 8], "k": [1, 2, 6, 8], "v": [1, 2, 6, 8]}
    model = network([node("Attention", "q k v", "y", is_causal=1)], shapes, ["y"], opset=23)
    model.ir_version = 11
    made = check(model, tmp_path)
    assert (made.count("MatMul"), made.count("Softmax")) == (2, 1)


@each(
    ("broken", "reason"),
    [
        (node("Cast", "x", "y"), "Required attribute 'to' is missing"),
        (node("Relu", "x x", "y"), r"Node\(Relu_y\) with schema\(::Relu:13\) has input size 2 not in range"),
        (node("Relu", "x", "y", alpha=0.1), "Unrecognized attribute: alpha for operator Relu"),
        (node("TopK", "x pair", "y i"), "its operands do not fit"),
        (node("Split", "x", "y z", num_outputs=3), "num_outputs is 3, and it has 2 outputs"),
    ],
)
def test_nodes_that_their_operators_do_not_allow(broken: onnx.NodeProto, reason: str, tmp_path: Path) -> None:
    model = network(
        [broken], {"x": [2, 3]}, ["y"], {"pair": np.array([1, 2])}, opset=18 if "Split" in str(broken) else 13
    )
    with pytest.raises(InvalidModel, match=rf"node '{broken.op_type}_y' \({broken.op_type}\): {reason}"):
        read(model, tmp_path)


def test_a_constant_beyond_all_measure(tmp_path: Path) -> None:
    nodes = [node("ConstantOfShape", "s", "c"), node("Add", "x c", "y")]
    model = network(nodes, {"x": [1]}, ["y"], {"s": np.array([1 << 15, 1 << 15])})
    with pytest.raises(InvalidModel, match=r"its constant result 'c' would have 1073741824 elements\. Export"):
        read(model, tmp_path)
