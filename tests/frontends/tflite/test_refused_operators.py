"""Operators whose operands or options cannot be imported: the node, the reason and, where there is one, the way out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import ImportOptions, TpucError
from tpuc_tflite.frontend import FRONTEND

from tests.families import each
from tests.frontends.tflite.files import RELU, TANH, Node, Tensor, constant, tflite_file
from tests.frontends.tflite.lstms import Layer
from tests.frontends.tflite.networks import read, registry, values

Options = tuple[str, dict[str, Any]] | None
X, IMAGE = Tensor("x", (2, 4)), Tensor("x", (1, 6, 6, 4))
Y = Tensor("y", (2, 4))
BYTES = Tensor("x", (2, 4), "INT8", None, (0.1,), (0,))
RESULT = Tensor("y", (2, 4), "INT8", None, (0.1,), (0,))
SHUFFLED = ("FullyConnectedOptions", {"WeightsFormat": 1})
FILTER = constant("w", values(8, 3, 3, 4))


def ints(*numbers: Any, name: str = "i") -> Tensor:
    return constant(name, np.array(numbers, np.int32))


def number(value: int, name: str = "i") -> Tensor:
    return constant(name, np.array(value, np.int32))


def table(rows: int, columns: int, name: str) -> Tensor:
    return constant(name, values(rows, columns))


def cuts(begin: list[int], end: list[int], strides: list[int]) -> list[Tensor]:
    return [X, *(ints(*part, name=name) for part, name in ((begin, "b"), (end, "e"), (strides, "s")))]


def lstm(*missing: int, **more: Tensor) -> tuple[list[Tensor], list[str]]:
    """Tensors and operand names of a layer with 4 inputs and 2 units."""
    tensors = [Tensor("x", (1, 5, 4)), *(table(2, 4, f"f{i}") for i in range(1, 5))]
    tensors += [*(table(2, 2, f"f{i}") for i in range(5, 9)), *more.values()]
    names = ["x", *(f"f{i}" for i in range(1, 9)), *[""] * 15]
    for index in missing:
        names[index] = ""
    for index, tensor in more.items():
        names[int(index[1:])] = tensor.name
    return tensors, names


CASES: list[tuple[str, list[Tensor], Tensor, Options, str]] = [
    ("RESIZE_BILINEAR", [X, ints(3, 3)], Y, None, "its operand 'x' has 2 dimensions, but an image has 4."),
    ("RESIZE_BILINEAR", [IMAGE, ints(3, 0)], Y, None, "its size [3, 0] is not an image size."),
    ("SUM", [X, ints(2)], Y, None, "axis 2 is not one of the 2 dimensions of its operand."),
    (
        "CUMSUM",
        [BYTES, number(0)],
        RESULT,
        None,
        "LiteRT has no quantized form of it either: export this node as float.",
    ),
    (
        "SCATTER_ND",
        [ints([1], name="i"), BYTES, ints(2, 4, name="s")],
        RESULT,
        None,
        "quantized updates are not supported: export this node as float.",
    ),
    (
        "REDUCE_PROD",
        [BYTES, ints(1)],
        RESULT,
        None,
        "products of quantized values are not supported: export this node as float.",
    ),
    ("QUANTIZE", [X], Y, None, "its result 'y' has no scale."),
    (
        "CAST",
        [X],
        Tensor("y", (2, 4), "COMPLEX64"),
        None,
        "a cast of computed values from FLOAT32 to COMPLEX64 is not supported.",
    ),
    (
        "SELECT",
        [constant("c", np.array([True, False])), X, constant("w", values(2, 4))],
        Y,
        None,
        "a condition that selects along the first dimension is not supported: export it with SELECT_V2.",
    ),
    ("RESHAPE", [X, ints(3, -1)], Y, None, "[2, 4] cannot become [3, 2]."),
    ("EXPAND_DIMS", [X, number(4)], Y, None, "axis 4 is not a place among 2 dimensions."),
    (
        "SQUEEZE",
        [X],
        Y,
        ("SqueezeOptions", {"SqueezeDims": [1]}),
        "it removes dimensions of [2, 4] whose extent is not 1.",
    ),
    ("TRANSPOSE", [X, ints(0, 0)], Y, None, "[0, 0] is not a permutation of 2 dimensions."),
    ("PAD", [X, ints([1, 1])], Y, None, "it pads 1 dimensions of 2."),
    ("SLICE", [X, ints(0, name="b"), ints(1, name="s")], Y, None, "it cuts 1 dimensions of 2."),
    (
        "SLICE",
        [X, ints(0, 3, name="b"), ints(2, 2, name="s")],
        Y,
        None,
        "[0, 3] to [2, 5] is not inside [2, 4].",
    ),
    ("STRIDED_SLICE", cuts([0], [2], [0]), Y, None, "its begins, ends and strides do not fit each other."),
    (
        "STRIDED_SLICE",
        cuts([0, 0, 0], [1, 1, 1], [1, 1, 1]),
        Y,
        None,
        "it slices 3 dimensions, but its operand has 2.",
    ),
    (
        "STRIDED_SLICE",
        cuts([0, 4], [1, 5], [1, 1]),
        Y,
        ("StridedSliceOptions", {"ShrinkAxisMask": 2}),
        "element 4 does not exist in a dimension of extent 4.",
    ),
    (
        "STRIDED_SLICE",
        cuts([1], [1], [1]),
        Y,
        ("StridedSliceOptions", {"Offset": True}),
        "its ends count from its begins (offset), which is not supported; state them from 0.",
    ),
    ("STRIDED_SLICE", cuts([1], [1], [1]), Y, None, "it selects nothing of its operand."),
    (
        "SPLIT_V",
        [X, ints(1, 2, name="s"), number(1)],
        Y,
        None,
        "extent 4 cannot be split into 1 parts of [1, 2].",
    ),
    ("UNPACK", [X], Y, ("UnpackOptions", {"Axis": 1}), "extent 4 gives 4 results, but it has 1."),
    ("TILE", [X, ints(1, 0)], Y, None, "[1, 0] repetitions do not fit 2 dimensions."),
    ("BROADCAST_TO", [X, ints(3, 4)], Y, None, "[2, 4] cannot be broadcast to [3, 4]."),
    ("SPACE_TO_DEPTH", [IMAGE], Y, None, "its block_size is 0, but must be positive."),
    (
        "CONV_2D",
        [IMAGE, FILTER],
        Y,
        ("Conv2DOptions", {"Padding": 2, "StrideH": 1, "StrideW": 1}),
        "padding 2 is not known, only SAME (0) and VALID (1).",
    ),
    (
        "CONV_2D",
        [IMAGE, FILTER],
        Y,
        ("Conv2DOptions", {"StrideH": 0, "StrideW": 1}),
        "its strides are [0, 1], but must be positive.",
    ),
    (
        "CONV_2D",
        [IMAGE, FILTER],
        Y,
        ("Conv2DOptions", {"StrideH": 1, "StrideW": 1, "DilationHFactor": 0}),
        "its dilations are [0, 1], but must be positive.",
    ),
    (
        "CONV_2D",
        [IMAGE, constant("w", values(8, 3, 3, 3))],
        Y,
        ("Conv2DOptions", {"StrideH": 1, "StrideW": 1}),
        "its filter has 3 channels, and its operand 4.",
    ),
    (
        "DEPTHWISE_CONV_2D",
        [IMAGE, constant("w", values(1, 3, 3, 6))],
        Y,
        ("DepthwiseConv2DOptions", {"StrideH": 1, "StrideW": 1}),
        "its filter makes 6 channels of 4.",
    ),
    ("CONV_2D", [X, FILTER], Y, None, "its operand and its filter must both have 4 dimensions."),
    (
        "TRANSPOSE_CONV",
        [ints(1, 12, 12), FILTER, IMAGE],
        Y,
        None,
        "its operand and its filter must both have 4 dimensions.",
    ),
    (
        "FULLY_CONNECTED",
        [BYTES, constant("w", np.ones((3, 4), np.int8), [0.1], [0]), constant("b", np.ones(3, np.int16))],
        RESULT,
        ("FullyConnectedOptions", {}),
        "its bias 'b' holds int16, but its other operands are quantized.",
    ),
    (
        "FULLY_CONNECTED",
        [X, table(3, 4, "w")],
        Y,
        SHUFFLED,
        "shuffled weights are not supported: export it with the default format.",
    ),
    (
        "FULLY_CONNECTED",
        [X, table(4, 3, "w")],
        Y,
        ("FullyConnectedOptions", {}),
        "a filter of [4, 3] does not fit an operand of [2, 4].",
    ),
    (
        "BATCH_MATMUL",
        [X, table(4, 3, "w")],
        Y,
        ("BatchMatMulOptions", {"AsymmetricQuantizeInputs": True}),
        "operands quantized at run time are not supported.",
    ),
    (
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        [Tensor("x", (1, 5, 4)), table(3, 4, "w"), table(3, 3, "r"), constant("b", values(3))],
        Y,
        ("SequenceRNNOptions", {"FusedActivationFunction": 3}),
        "only layers with tanh or relu are supported.",
    ),
    (
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        [Tensor("x", (1, 5, 4)), Tensor("w", (3, 4)), table(3, 3, "r"), constant("b", values(3))],
        Y,
        ("SequenceRNNOptions", {"FusedActivationFunction": RELU}),
        "its operand 'w' must be a constant.",
    ),
    (
        "SVDF",
        [BYTES, table(6, 4, "f"), table(6, 3, "t")],
        RESULT,
        ("SVDFOptions", {"Rank": 1}),
        "its state is not a separate variable tensor.",
    ),
    (
        "SVDF",
        [X, table(6, 4, "f"), table(6, 3, "t")],
        Y,
        ("SVDFOptions", {"Rank": 2}),
        "its state is not a separate variable tensor.",
    ),
    (
        "GATHER",
        [X, number(0)],
        Y,
        ("GatherOptions", {"BatchDims": 1}),
        "batch_dims other than 0 is not supported: export it with GATHER_ND.",
    ),
    (
        "SCATTER_ND",
        [ints([0, 0, 0]), Tensor("x", (1,)), ints(2, 4, name="s")],
        Y,
        None,
        "indices of [1, 3] do not fit a result of [2, 4].",
    ),
    (
        "ONE_HOT",
        [Tensor("x", (2,), "INT32"), number(4, "d"), constant("on", values(2)), constant("off", values(1))],
        Y,
        ("OneHotOptions", {"Axis": -1}),
        "the on value must be a single number.",
    ),
    ("SOFTMAX", [Tensor("x", ())], Tensor("y", ()), ("SoftmaxOptions", {"Beta": 1.0}), "its operand has no dimension."),
    (
        "LOCAL_RESPONSE_NORMALIZATION",
        [IMAGE],
        Y,
        ("LocalResponseNormalizationOptions", {"Radius": 1024}),
        "its radius is 1024, but must be below 1024.",
    ),
    (
        "FULLY_CONNECTED",
        [BYTES, table(3, 4, "w")],
        RESULT,
        ("FullyConnectedOptions", {}),
        "its weight 'w' is not quantized, but its other operands are.",
    ),
    ("TILE", [X, ints(1 << 20, 1 << 20)], Y, None, "its result of 2097152x4194304 has more than 268435456 elements."),
]


def sentence(content: bytes, folder: Path, options: ImportOptions | None = None) -> str:
    """The error's text behind the file's name."""
    with pytest.raises(TpucError) as caught:
        read(content, folder, options)
    return str(caught.value).replace(f"{folder}/network.tflite: ", "")


def node_sentence(folder: Path, node: Node, tensors: list[Tensor], inputs: list[str]) -> str:
    return sentence(tflite_file(tensors, [node], inputs, list(node.outputs)), folder)


@each(("op", "operands", "result", "options", "expected"), CASES)
def test_sentences(
    op: str, operands: list[Tensor], result: Tensor, options: Options, expected: str, tmp_path: Path
) -> None:
    node = Node(op, [operand.name for operand in operands], ["y"], options)
    inputs = [operand.name for operand in operands if operand.data is None]
    told = node_sentence(tmp_path, node, [*operands, result], inputs)
    assert told == f"node 'y' ({op}): {expected}"


PEEPHOLE = constant("p", values(2))
SEQUENCE: Options = ("UnidirectionalSequenceLSTMOptions", {"FusedActivationFunction": TANH})
LACKING = "some of its gates lack an operand that the others have."
CLIPPED: Options = ("UnidirectionalSequenceLSTMOptions", {"FusedActivationFunction": TANH, "CellClip": -2.0})


@each(
    ("layer", "options", "expected"),
    [
        (lstm(_9=PEEPHOLE), SEQUENCE, LACKING),
        (lstm(_20=PEEPHOLE), SEQUENCE, LACKING),
        (lstm(1), SEQUENCE, LACKING),
        (lstm(2), SEQUENCE, LACKING),
        (lstm(), CLIPPED, "only LSTMs with tanh and clips of at least 0 are supported."),
    ],
)
def test_lstm(layer: tuple[list[Tensor], list[str]], options: Options, expected: str, tmp_path: Path) -> None:
    tensors, names = layer
    node = Node("UNIDIRECTIONAL_SEQUENCE_LSTM", names, ["y"], options)
    told = node_sentence(tmp_path, node, [*tensors, Tensor("y", (1, 5, 2))], ["x"])
    assert told == f"node 'y' (UNIDIRECTIONAL_SEQUENCE_LSTM): {expected}"


def test_lstms_of_integers_state_their_scales(tmp_path: Path) -> None:
    def told(layer: Layer, change: Callable[[Tensor], Tensor], *, with_inner: bool = True) -> str:
        tensors, node = layer.parts()
        node = node if with_inner else dataclasses.replace(node, intermediates=())
        return node_sentence(tmp_path, node, [change(tensor) for tensor in tensors], ["x"])

    def bare(tensor: Tensor) -> Tensor:
        return dataclasses.replace(tensor, scales=(), zeros=()) if tensor.name == "w2" else tensor

    assert told(Layer(), bare) == (
        "node 'y' (UNIDIRECTIONAL_SEQUENCE_LSTM): its operand 'w2' has no single scale, but its result has one."
    )
    assert told(Layer(outputs=10), lambda tensor: tensor, with_inner=False) == (
        "node 'y' (UNIDIRECTIONAL_SEQUENCE_LSTM): it does not state the scale of the projected values."
    )
    assert told(Layer(steps=1025, count=1, inputs=2, units=2, norm=True), lambda tensor: tensor) == (
        "node 'y' (UNIDIRECTIONAL_SEQUENCE_LSTM): at most 1024 steps can be unrolled, but it has 1025."
    )


def test_filters_over_time(tmp_path: Path) -> None:
    tensors = [X, table(5, 4, "f"), table(5, 3, "t"), constant("b", values(2)), Tensor("s", (2, 15), is_variable=True)]
    node = Node("SVDF", ["x", "f", "t", "b", "s"], ["y"], ("SVDFOptions", {"Rank": 2}))
    assert node_sentence(tmp_path, node, [*tensors, Y], ["x"]) == (
        "node 'y' (SVDF): 5 filters of rank 2 do not fit an operand of [2, 4]."
    )


def test_a_state_of_8_bits(tmp_path: Path) -> None:
    """LiteRT itself ends with damaged memory."""
    state = Tensor("s", (2, 12), "INT8", None, (0.1,), (0,), is_variable=True)
    filters = [constant(name, np.ones((4, count), np.int8), [0.1], [0]) for name, count in (("f", 4), ("t", 3))]
    node = Node("SVDF", ["x", "f", "t", "", "s"], ["y"], ("SVDFOptions", {"Rank": 1, "FusedActivationFunction": RELU}))
    assert node_sentence(tmp_path, node, [BYTES, *filters, state, RESULT], ["x"]) == (
        "node 'y' (SVDF): its state is not stored in 16 bits with a scale, as LiteRT needs it."
    )


def test_an_operand_that_is_left_out(tmp_path: Path) -> None:
    assert node_sentence(tmp_path, Node("ADD", ["x", ""], ["y"], ("AddOptions", {})), [X, Y], ["x"]) == (
        "node 'y' (ADD): a required operand is missing."
    )


def test_operands_that_are_not_there(tmp_path: Path) -> None:
    assert node_sentence(tmp_path, Node("ADD", [], ["y"], ("AddOptions", {})), [X, Y], ["x"]).startswith(
        "node 'y' (ADD): its operands and attributes contradict each other ("
    )


@each(
    ("op", "left", "expected"),
    [
        ("FILL", ints(-1), "the shape [-1] is impossible"),
        ("DIV", ints(4), "it divides by zero"),
    ],
)
def test_constants_that_cannot_be_computed(op: str, left: Tensor, expected: str, tmp_path: Path) -> None:
    tensors = [Tensor("x", (1,), "INT32"), left, number(0, "z"), Tensor("k", (1,), "INT32"), Tensor("y", (1,), "INT32")]
    nodes = [Node(op, ["i", "z"], ["k"]), Node("ADD", ["x", "k"], ["y"], ("AddOptions", {}))]
    assert sentence(tflite_file(tensors, nodes, ["x"], ["y"]), tmp_path) == (
        f"node 'k' ({op}): its operands are constants, but it cannot be computed: {expected}. Export the network again."
    )


@pytest.mark.parametrize(
    ("tensors", "shapes", "expected"),
    [
        (
            [X, Y],
            ((2, 4), (2, 4)),
            "has 1 inputs (x), but 2 shapes are given. Give one for each.",
        ),
        ([constant("x", values(2, 4)), Y], (), "input 'x' is a constant. Export the network again."),
        (
            [Tensor("x", (0, 4)), Y],
            (),
            "input 'x' has the shape 0x4, which is empty. State its shape with --input-shapes.",
        ),
    ],
)
def test_inputs(tensors: list[Tensor], shapes: tuple[tuple[int, ...], ...], expected: str, tmp_path: Path) -> None:
    content = tflite_file(tensors, [Node("ABS", ["x"], ["y"])], ["x"], ["y"])
    assert sentence(content, tmp_path, ImportOptions("n", input_shapes=shapes)) == expected


@each(
    ("weight", "expected"),
    [
        (Tensor("w", (2, 4), "COMPLEX64", values(2, 4)), "weight 'w' holds elements of COMPLEX64. Export it as float."),
        (
            Tensor("w", (2, 4), "INT4", np.zeros(3, np.int8)),
            "weight 'w' has 3 bytes, but its shape 2x4 of INT4 needs 4. Export or download it again.",
        ),
    ],
)
def test_weights(weight: Tensor, expected: str, tmp_path: Path) -> None:
    content = tflite_file([X, weight, Y], [Node("ADD", ["x", "w"], ["y"], ("AddOptions", {}))], ["x"], ["y"])
    assert sentence(content, tmp_path) == expected


def test_a_graph_without_outputs(tmp_path: Path) -> None:
    assert sentence(tflite_file([X, Y], [Node("ABS", ["x"], ["y"])], ["x"], []), tmp_path) == (
        "its graph has no inputs, or no outputs, so there is nothing to compile. Export the part that computes."
    )


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "network.tflite").mkdir()
    with pytest.raises(TpucError, match=r"cannot be read: Is a directory\. Check the path and its permissions\.$"):
        FRONTEND.read(tmp_path / "network.tflite", ImportOptions(), registry())
