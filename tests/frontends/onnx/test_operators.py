"""Every operator means what ONNX Runtime computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.families import each
from tests.frontends.onnx.networks import Array, assert_same, network, node, ops, read, values

I64 = np.int64


def check(model: onnx.ModelProto, folder: Path) -> list[str]:
    module = read(model, folder)
    assert_same(model, module)
    return ops(module)


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 8, 9), (4, 3, 3, 2), {}),
    ((2, 3, 8, 9), (4, 3, 3, 3), {"pads": [0, 1, 2, 3], "strides": [2, 1]}),
    ((1, 4, 9, 9), (6, 2, 3, 3), {"group": 2, "dilations": [2, 1]}),
    ((1, 4, 7, 7), (4, 1, 3, 3), {"group": 4, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((1, 2, 8, 8), (3, 2, 2, 2), {"auto_pad": "SAME_LOWER"}),
    ((1, 2, 8, 8), (3, 2, 3, 3), {"auto_pad": "VALID", "kernel_shape": [3, 3]}),
    ((1, 3, 11), (4, 3, 3), {"pads": [2, 1], "strides": [2]}),
    ((1, 3, 11), (3, 1, 4), {"group": 3, "dilations": [2]}),
]


@each(("x", "w", "attributes"), CONVOLUTIONS)
@each("bias", [False, True])
def test_conv(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any], bias: bool, tmp_path: Path) -> None:
    weights = {"w": values(*w), "b": values(w[0])} if bias else {"w": values(*w)}
    model = network([node("Conv", "x w b" if bias else "x w", "y", **attributes)], {"x": x}, ["y"], weights)
    assert check(model, tmp_path).count("Conv") == 1


@each("op", ["MaxPool", "AveragePool"])
@each(
    "attributes",
    [
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ],
)
def test_pool(op: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    check(network([node(op, "x", "y", **attributes)], {"x": [1, 2, 8, 10]}, ["y"]), tmp_path)


@each("ceil_mode", [0, 1])
@each("strides", [[2, 2], [3, 2]])
def test_average_pool_that_counts_its_padding(ceil_mode: int, strides: list[int], tmp_path: Path) -> None:
    attributes = {"kernel_shape": [3, 3], "strides": strides, "pads": [1, 1, 1, 1], "count_include_pad": 1}
    pool = node("AveragePool", "x", "y", ceil_mode=ceil_mode, **attributes)
    check(network([pool], {"x": [1, 2, 8, 7]}, ["y"], opset=19), tmp_path)


@each("op", ["MaxPool", "AveragePool"])
def test_pool_over_one_dimension(op: str, tmp_path: Path) -> None:
    pool = node(op, "x", "y", kernel_shape=[3], strides=[2], pads=[1, 0], ceil_mode=1)
    assert check(network([pool], {"x": [1, 2, 10]}, ["y"]), tmp_path)[::2] == ["Reshape", "Reshape"]


@each("op", ["GlobalMaxPool", "GlobalAveragePool"])
@each("shape", [[1, 3, 5, 4], [2, 3, 7]])
def test_global_pool(op: str, shape: list[int], tmp_path: Path) -> None:
    check(network([node(op, "x", "y")], {"x": shape}, ["y"]), tmp_path)


@given(data=st.data())
def test_windows_of_any_kind(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    size = [data.draw(st.integers(3, 9)) for _ in "hw"]
    kernel = [data.draw(st.integers(1, 3)) for _ in "hw"]
    mode = data.draw(st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    steps = [extent if mode.startswith("SAME") else 4 for extent in kernel]  # ONNX Runtime refuses wider ones there
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": [data.draw(st.integers(1, s)) for s in steps]}
    if mode == "NOTSET":
        attributes["pads"] = [data.draw(st.integers(0, extent - 1)) for extent in [*kernel, *kernel]]
        attributes["ceil_mode"] = data.draw(st.integers(0, 1))
    else:
        attributes["auto_pad"] = mode
    op = data.draw(st.sampled_from(["MaxPool", "AveragePool", "Conv"]))
    weights: dict[str, Array] = {}
    if op == "Conv":
        assume(not attributes.pop("ceil_mode", 0))
        weights = {"w": values(2, 2, *kernel)}
    model = network([node(op, "x w" if weights else "x", "y", **attributes)], {"x": [1, 2, *size]}, ["y"], weights)
    check(model, tmp_path_factory.mktemp("window"))


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
class TestArithmetic:
    def test_of_two_values(self, op: str, tmp_path: Path) -> None:
        check(network([node(op, "a b", "y")], {"a": [1, 3, 4, 5], "b": [1, 3, 1, 5]}, ["y"]), tmp_path)

    @pytest.mark.parametrize("operands", ["x c", "c x"])
    @pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1, 1), (3, 1, 1), (5,), (1, 3, 4, 5)])
    def test_with_a_constant(self, op: str, operands: str, shape: tuple[int, ...], tmp_path: Path) -> None:
        weights = {"c": np.abs(values(*shape)) + 1}
        check(network([node(op, operands, "y")], {"x": [1, 3, 4, 5]}, ["y"], weights), tmp_path)


def test_scalar_constants_become_attributes(tmp_path: Path) -> None:
    nodes = [node("Add", "x c", "a"), node("Mul", "c a", "b"), node("Sub", "c b", "d"), node("Div", "d c", "y")]
    model = network(nodes, {"x": [1, 3]}, ["y"], {"c": np.float32([2.5])})
    assert check(model, tmp_path) == ["AddConst", "MulConst", "SubConst", "MulConst"]


@each("keepdims", [0, 1])
@each("axes", [(), (1,), (0, 1)])
def test_the_mean_of_integers_is_an_integer(axes: tuple[int, ...], keepdims: int, tmp_path: Path) -> None:
    nodes = [
        node("Mul", "x c", "t"),
        node("Cast", "t", "i", to=onnx.TensorProto.INT32),
        node("ReduceMean", "i", "m", keepdims=keepdims, **({"axes": list(axes)} if axes else {})),
        node("Cast", "m", "y", to=onnx.TensorProto.FLOAT),
    ]
    check(network(nodes, {"x": [3, 49, 2]}, ["y"], {"c": np.float32(4)}), tmp_path)


def test_sum_of_many_and_neg(tmp_path: Path) -> None:
    nodes = [node("Sum", "a w b", "s"), node("Neg", "s", "n"), node("Sum", "n", "y")]
    model = network(nodes, {"a": [2, 3], "b": [1, 3]}, ["y"], {"w": values(2, 1)})
    check(model, tmp_path)


@each(
    ("a", "b"),
    [([3, 4], [4, 5]), ([2, 3, 4], [2, 4, 5]), ([2, 3, 4], [4, 5]), ([4], [4, 5]), ([3, 4], [4]), ([4], [4])],
)
@each("constant", [False, True])
def test_matmul(a: list[int], b: list[int], constant: bool, tmp_path: Path) -> None:
    inputs = {"a": a} if constant else {"a": a, "b": b}
    check(network([node("MatMul", "a b", "y")], inputs, ["y"], {"b": values(*b)} if constant else {}), tmp_path)


@each("attributes", [{}, {"transB": 1}, {"transA": 1}, {"alpha": 0.5, "beta": 2.0, "transB": 1}])
@each("constant", [False, True])
@each("c", [None, (), (5,), (1, 5), (3, 5), (3, 1)])
def test_gemm(attributes: dict[str, Any], constant: bool, c: tuple[int, ...] | None, tmp_path: Path) -> None:
    a = [4, 3] if attributes.get("transA") else [3, 4]
    b = [5, 4] if attributes.get("transB") else [4, 5]
    shapes = {"a": a, "b": b} if c is None else {"a": a, "b": b, "c": list(c)}
    weights = {name: values(*shapes.pop(name)) for name in ("b", "c") if constant and name in shapes}
    names = "a b" if c is None else "a b c"
    model = network([node("Gemm", names, "y", **attributes)], shapes, ["y"], weights)
    made = check(model, tmp_path)
    if constant and c in (None, (), (5,), (1, 5)):
        assert made[-1] == "MatMul"


@each("op", ["Softmax", "LogSoftmax"])
@each("opset", [11, 13])
@each("shape", [[2, 5], [2, 3, 4], [1, 5, 1, 1]])
@each("axis", [None, 0, 1, -1])
def test_softmax(op: str, opset: int, shape: list[int], axis: int | None, tmp_path: Path) -> None:
    attributes = {} if axis is None else {"axis": axis}
    check(network([node(op, "x", "y", **attributes)], {"x": shape}, ["y"], opset=opset), tmp_path)


def test_old_softmax_normalizes_everything_behind_the_axis_together(tmp_path: Path) -> None:
    model = network([node("Softmax", "x", "y")], {"x": [2, 3, 4]}, ["y"], opset=12)
    assert check(model, tmp_path) == ["Reshape", "Softmax", "Reshape"]


def test_clip_takes_limits_in_both_forms(tmp_path: Path) -> None:
    old = network([node("Clip", "x", "y", min=-1.0, max=0.5)], {"x": [2, 3]}, ["y"], opset=10)
    check(old, tmp_path)
    limits = {"low": np.float32(-1), "high": np.float32(0.5)}
    for operands in ("x low high", "x - high", "x low", "x"):
        check(network([node("Clip", operands, "y")], {"x": [2, 3]}, ["y"], limits), tmp_path)


def test_clip_takes_limits_that_are_computed(tmp_path: Path) -> None:
    inputs, number = {"x": [2, 3], "low": [], "high": []}, {"number": np.array(0.5, np.float32)}
    cases = {"x low high": ["Max", "Min"], "x - high": ["Min"], "x low": ["Max"], "x low number": ["Max", "MinConst"]}
    for operands, expected in cases.items():
        used = {name: shape for name, shape in inputs.items() if name in operands.split()}
        model = network([node("Clip", operands, "y")], used, ["y"], number if "number" in operands else {})
        assert [op for op in check(model, tmp_path) if op in ("Max", "Min", "MinConst")] == expected


@each("opset", [7, 13, 15])
def test_batch_normalization(opset: int, tmp_path: Path) -> None:
    weights = {"s": values(3), "b": values(3), "m": values(3), "v": np.abs(values(3)) + 0.1}
    model = network(
        [node("BatchNormalization", "x s b m v", "y", epsilon=1e-3)], {"x": [2, 3, 4]}, ["y"], weights, opset
    )
    check(model, tmp_path)


def test_operators_that_only_move(tmp_path: Path) -> None:
    nodes = [
        node("Flatten", "x", "f", axis=2),
        node("Unsqueeze", "f", "u", axes=[0, 3]),
        node("Squeeze", "u", "s"),
        node("Identity", "s", "i"),
        node("Dropout", "i", "d"),
        node("Transpose", "d", "t"),
        node("Reshape", "t shape", "y"),
    ]
    model = network(nodes, {"x": [2, 3, 4, 5]}, ["y"], {"shape": np.array([4, -1, 5], I64)}, opset=11)
    assert check(model, tmp_path) == ["Reshape", "Reshape", "Reshape", "Permute", "Reshape"]


def test_transpose_and_axes_as_operands(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", "x", "t", perm=[0, 2, 3, 1]),
        node("Unsqueeze", "t axes", "u"),
        node("Squeeze", "u axes", "s"),
        node("Relu", "s", "y"),
    ]
    check(network(nodes, {"x": [1, 3, 4, 5]}, ["y"], {"axes": np.array([1], I64)}), tmp_path)


def test_a_cast_between_floats_is_nothing(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "r"), node("Cast", "r", "c", to=onnx.TensorProto.FLOAT), node("Relu", "c", "y")]
    assert check(network(nodes, {"x": [2, 3]}, ["y"]), tmp_path) == ["Relu", "Relu"]


FUNCTIONS = ["Abs", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish"]
FUNCTIONS += ["Round", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Tanh", "Neg", "Relu"]


@each("op", FUNCTIONS)
def test_functions_of_one_value(op: str, tmp_path: Path) -> None:
    check(network([node(op, "x", "y")], {"x": [2, 3, 4]}, ["y"], opset=18), tmp_path)


@each("op", ["Log", "Sqrt", "Reciprocal"])
def test_functions_of_positive_values(op: str, tmp_path: Path) -> None:
    nodes = [node("Abs", "x", "a"), node("Add", "a one", "b"), node(op, "b", "y")]
    check(network(nodes, {"x": [2, 3]}, ["y"], {"one": np.float32(1)}), tmp_path)


def test_functions_with_numbers_of_their_own(tmp_path: Path) -> None:
    nodes = [
        node("Elu", "x", "a", alpha=0.3),
        node("HardSigmoid", "a", "b", alpha=0.7, beta=0.1),
        node("LeakyRelu", "b", "c", alpha=-0.4),
        node("PRelu", "c slope", "d"),
        node("Abs", "d", "e"),
        node("Pow", "e exponent", "y"),
    ]
    weights = {"slope": values(3, 1, 1), "exponent": np.float32(1.5)}
    check(network(nodes, {"x": [1, 3, 4, 4]}, ["y"], weights), tmp_path)


@each("op", ["Max", "Min"])
@each("constant", [(), (3, 1)])
def test_extremes(op: str, constant: tuple[int, ...], tmp_path: Path) -> None:
    nodes = [node(op, "a c", "m"), node(op, "c b m", "y")]
    check(network(nodes, {"a": [2, 3, 4], "b": [3, 4]}, ["y"], {"c": values(*constant)}), tmp_path)


@each(
    ("starts", "ends", "axes", "steps"),
    [
        ([1, 2], [3, 5], None, None),
        ([-3], [-1], [2], None),
        ([0, 1], [2**31, 1000], [1, 2], [2, 3]),
        ([-1], [-(2**31)], [2], [-2]),
        ([3], [0], [-1], [-1]),
        ([0], [100], [0], None),
    ],
)
def test_slice(
    starts: list[int], ends: list[int], axes: list[int] | None, steps: list[int] | None, tmp_path: Path
) -> None:
    given = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    weights: dict[str, Array] = {name: np.array(value, I64) for name, value in given.items() if value is not None}
    names = ["x", *(name if name in weights else "-" for name in given)]
    check(network([node("Slice", " ".join(names), "y")], {"x": [4, 5, 6]}, ["y"], weights), tmp_path)
    if steps is None:
        attributes = {name: value for name, value in given.items() if value is not None}
        check(network([node("Slice", "x", "y", **attributes)], {"x": [4, 5, 6]}, ["y"], opset=9), tmp_path)


def test_split_in_every_form(tmp_path: Path) -> None:
    check(network([node("Split", "x", "a b c", axis=-1)], {"x": [2, 6]}, ["a", "b", "c"], opset=11), tmp_path)
    check(network([node("Split", "x", "a b", axis=1, split=[1, 5])], {"x": [2, 6]}, ["a", "b"], opset=11), tmp_path)
    sizes = {"sizes": np.array([2, 4], I64)}
    check(network([node("Split", "x sizes", "a b", axis=1)], {"x": [2, 6]}, ["a", "b"], sizes), tmp_path)
    uneven = node("Split", "x", "a b", axis=1, num_outputs=2)
    check(network([uneven], {"x": [2, 5]}, ["a", "b"], opset=18), tmp_path)


@each(
    ("indices", "expected"),
    [(2, "Slice"), ([1], "Slice"), ([0, 2, 4], "Slice"), ([-1, -3], "Gather"), ([[0, 1], [1, 0]], "Gather")],
)
def test_gather_of_constant_places(indices: Any, expected: str, tmp_path: Path) -> None:
    weights: dict[str, Array] = {"i": np.array(indices, I64)}
    model = network([node("Gather", "x i", "y", axis=1)], {"x": [2, 5, 3]}, ["y"], weights)
    assert check(model, tmp_path)[0] == expected


@each("mode", ["constant", "reflect", "edge"])
def test_pad_in_every_form(mode: str, tmp_path: Path) -> None:
    pads = [0, 0, 1, 2, 0, 0, 0, 1]
    check(network([node("Pad", "x", "y", pads=pads, mode=mode)], {"x": [1, 2, 4, 5]}, ["y"], opset=10), tmp_path)
    weights: dict[str, Array] = {"pads": np.array(pads, I64), "value": np.float32(0.5)}
    value = " value" if mode == "constant" else ""
    model = network([node("Pad", f"x pads{value}", "y", mode=mode)], {"x": [1, 2, 4, 5]}, ["y"], weights)
    check(model, tmp_path)
    weights = {"pads": np.array([2, 1], I64), "axes": np.array([-1], I64)}
    check(network([node("Pad", "x pads - axes", "y", mode=mode)], {"x": [3, 4]}, ["y"], weights, opset=18), tmp_path)


def test_nothing_around_and_nothing_behind_is_nothing(tmp_path: Path) -> None:
    nodes = [
        node("Relu", "x", "r"),
        node("Pad", "r pads", "p"),
        node("Concat", "p", "c", axis=0),
        node("Neg", "c", "y"),
    ]
    model = network(nodes, {"x": [2, 3]}, ["y"], {"pads": np.zeros(4, I64)})
    assert check(model, tmp_path) == ["Relu", "MulConst"]


@each("axis", [1, -1])
def test_concat(axis: int, tmp_path: Path) -> None:
    weights = {"w": values(1, 3, 4)}
    check(
        network([node("Concat", "a w b", "y", axis=axis)], {"a": [1, 3, 4], "b": [1, 3, 4]}, ["y"], weights), tmp_path
    )


def test_tile_and_expand(tmp_path: Path) -> None:
    nodes = [node("Tile", "x counts", "t"), node("Expand", "t shape", "y")]
    weights: dict[str, Array] = {"counts": np.array([1, 2], I64), "shape": np.array([2, 3, 1, 4], I64)}
    check(network(nodes, {"x": [1, 2]}, ["y"], weights), tmp_path)


@each("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(mode: str, tmp_path: Path) -> None:
    nodes = [node("DepthToSpace", "x", "d", blocksize=2, mode=mode), node("SpaceToDepth", "d", "y", blocksize=2)]
    check(network(nodes, {"x": [1, 8, 3, 4]}, ["y", "d"]), tmp_path)


@each("kind", ["L1", "L2", "Max", "Mean", "Min", "Prod", "Sum"])
def test_reductions(kind: str, tmp_path: Path) -> None:
    op = f"Reduce{kind}"
    check(network([node(op, "x", "y", axes=[1, -1], keepdims=0)], {"x": [2, 3, 4, 5]}, ["y"], opset=11), tmp_path)
    weights: dict[str, Array] = {"axes": np.array([2, 3], I64)}
    nodes = [
        node(op, "x axes", "y"),
        node(op, "x", "z"),
        node(op, "x", "i", noop_with_empty_axes=1),
        node("Neg", "i", "n"),
    ]
    check(network(nodes, {"x": [2, 3, 4, 5]}, ["y", "z", "n"], weights, opset=18), tmp_path)


RESIZES: list[tuple[dict[str, Any], str]] = [
    ({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, "Upsample"),
    ({}, "Upsample"),
    ({"nearest_mode": "round_prefer_ceil"}, "Upsample"),
    ({"mode": "linear"}, "Interp"),
    ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, "Interp"),
    ({"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, "Interp"),
    ({"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}, "Interp"),
]


@each(("attributes", "expected"), RESIZES)
def test_resize_by_whole_factors(attributes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    weights: dict[str, Array] = {"scales": np.float32([1, 1, 2, 3])}
    model = network([node("Resize", "x - scales", "y", **attributes)], {"x": [1, 2, 3, 4]}, ["y"], weights)
    assert check(model, tmp_path) == [expected]


@each("attributes", [attributes for attributes, _ in RESIZES if "nearest_mode" not in attributes])
def test_resize_to_sizes_and_by_fractions(attributes: dict[str, Any], tmp_path: Path) -> None:
    weights: dict[str, Array] = {"sizes": np.array([1, 2, 5, 7], I64), "scales": np.float32([1, 1, 1.6, 0.7])}
    for operands in ("x - - sizes", "x - scales"):
        model = network([node("Resize", operands, "y", **attributes)], {"x": [1, 2, 3, 4]}, ["y"], weights)
        assert check(model, tmp_path) == ["Interp"]


def test_upsample_of_old_opsets(tmp_path: Path) -> None:
    scales = [1.0, 1.0, 2.0, 2.0]
    model = network([node("Upsample", "x", "y", scales=scales)], {"x": [1, 2, 3, 4]}, ["y"], opset=7)
    assert check(model, tmp_path) == ["Upsample"]
    weights: dict[str, Array] = {"scales": np.float32(scales)}
    for op, opset in (("Upsample", 9), ("Resize", 10)):
        model = network([node(op, "x scales", "y")], {"x": [1, 2, 3, 4]}, ["y"], weights, opset)
        assert check(model, tmp_path) == ["Upsample"]


@each("attributes", [{}, {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2]}])
@each("group", [1, 2])
def test_conv_transpose(attributes: dict[str, Any], group: int, tmp_path: Path) -> None:
    weights = {"w": values(4, 3, 3, 2), "b": values(3 * group)}
    transposed = node("ConvTranspose", "x w b", "y", group=group, **attributes)
    check(network([transposed], {"x": [1, 4, 4, 5]}, ["y"], weights), tmp_path)


def test_layer_normalization(tmp_path: Path) -> None:
    weights = {"s": values(3, 4), "b": values(3, 4)}
    nodes = [node("LayerNormalization", "x s b", "n", axis=1, epsilon=1e-3), node("LayerNormalization", "n one", "y")]
    weights["one"] = values(4)
    check(network(nodes, {"x": [2, 3, 4]}, ["y"], weights, opset=17), tmp_path)


@each("opset", range(7, 23))
def test_every_opset(opset: int, tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c b b b v", "n"),
        node("Relu", "n", "r"),
        node("Add", "r x", "a"),
        node("MaxPool", "a", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", "p", "g"),
        node("Flatten", "g", "f"),
        node("Gemm", "f m b", "h", transB=1),
        node("Softmax", "h", "y", axis=1),
    ]
    weights = {"w": values(3, 3, 3, 3), "b": values(3), "v": np.abs(values(3)) + 1, "m": values(3, 3)}
    check(network(nodes, {"x": [1, 3, 6, 6]}, ["y"], weights, opset), tmp_path)
