"""Sequences whose lengths are known, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tpuc.api import ImportOptions, TpucError, Unsupported
from tpuc.interpreter import Interpreter

from tests.families import each
from tests.frontends.onnx.networks import Array, assert_same, network, node, ops, read, run_onnx, values

WEIGHTS: Mapping[str, Array] = {
    "w": values(2, 6, seed=5),
    "one": np.array(1, np.int64),
    "last": np.array(-1, np.int64),
    "two": np.array(2, np.int64),
    "sizes": np.array([1, 3, 2], np.int64),
    "nine": np.array(9, np.int64),
    "three": np.array(3, np.int64),
}
MADE = node("SequenceConstruct", "x r w", "s")
CASES: Mapping[str, list[onnx.NodeProto]] = {
    "behind each other": [MADE, node("ConcatFromSequence", "s", "y", axis=1)],
    "along a new axis": [MADE, node("ConcatFromSequence", "s", "y", axis=1, new_axis=1)],
    "along a new axis at the end": [MADE, node("ConcatFromSequence", "s", "y", axis=-1, new_axis=1)],
    "one part": [MADE, node("SequenceAt", "s last", "t"), node("Neg", "t", "u"), node("Add", "u x", "y")],
    "a constant part": [MADE, node("SequenceAt", "s two", "t"), node("Add", "t x", "y")],
    "their number": [
        MADE,
        node("SequenceLength", "s", "n"),
        node("Cast", "n", "f", to=TensorProto.FLOAT),
        node("Mul", "x f", "y"),
    ],
    "one more": [MADE, node("SequenceInsert", "s x one", "t"), node("ConcatFromSequence", "t", "y", axis=0)],
    "one more at the end": [MADE, node("SequenceInsert", "s x", "t"), node("ConcatFromSequence", "t", "y", axis=0)],
    "one less": [MADE, node("SequenceErase", "s one", "t"), node("ConcatFromSequence", "t", "y", axis=0)],
    "without the last": [MADE, node("SequenceErase", "s", "t"), node("ConcatFromSequence", "t", "y", axis=0)],
    "from nothing": [
        node("SequenceEmpty", "", "e"),
        node("SequenceInsert", "e x", "s"),
        node("SequenceInsert", "s r", "t"),
        node("ConcatFromSequence", "t", "y", axis=0),
    ],
    "parts of sizes": [
        node("SplitToSequence", "x sizes", "s", axis=1),
        node("SequenceAt", "s one", "t"),
        node("SequenceAt", "s last", "u"),
        node("Concat", "u t", "y", axis=1),
    ],
    "parts of one size": [
        node("SplitToSequence", "x two", "s", axis=1),
        node("SequenceErase", "s one", "t"),
        node("ConcatFromSequence", "t", "y", axis=1),
    ],
    "rows": [
        node("SplitToSequence", "x", "s", axis=1, keepdims=0),
        node("ConcatFromSequence", "s", "y", axis=0, new_axis=1),
    ],
    "columns": [node("SplitToSequence", "x", "s", axis=1), node("ConcatFromSequence", "s", "y", axis=0)],
    "another name": [MADE, node("Identity", "s", "t"), node("ConcatFromSequence", "t", "y", axis=0)],
}


def model_of(nodes: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    nodes = [node("Relu", "x", "r"), *nodes]
    used = {name: WEIGHTS[name] for one in nodes for name in one.input if name in WEIGHTS}
    return network(nodes, {"x": [2, 6]}, ["y"], used, opset=17)


@each("case", CASES)
def test_as_onnx_runtime(case: str, tmp_path: Path) -> None:
    model = model_of(CASES[case])
    assert_same(model, read(model, tmp_path))


def test_constants_in_a_sequence_are_folded(tmp_path: Path) -> None:
    nodes = [
        node("SequenceConstruct", "w w", "s"),
        node("ConcatFromSequence", "s", "t", axis=0, new_axis=1),
        node("Add", "t x", "y"),
    ]
    assert ops(read(model_of(nodes), tmp_path)) == ["Add"]


def test_a_loop_that_collects(tmp_path: Path) -> None:
    """What a list in Python becomes: a sequence that every step makes longer."""
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    body = helper.make_graph(
        [
            node("Identity", "going", "on"),
            node("Gather", "x i", "row", axis=1),
            node("SequenceInsert", "list row", "longer"),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_value_info("list", sequence),
        ],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_value_info("longer", sequence)],
    )
    nodes = [
        node("SequenceEmpty", "", "e"),
        node("Loop", "three - e", "s", body=body),
        node("ConcatFromSequence", "s", "y", axis=0, new_axis=1),
    ]
    model = model_of(nodes)
    x = values(2, 6)
    got = Interpreter(read(model, tmp_path)).run({"x": x})["y"]
    np.testing.assert_array_equal(got, run_onnx(model, {"x": x})["y"])
    np.testing.assert_array_equal(got, x[:, :3].T)


@each(
    ("nodes", "expected"),
    [
        (
            [MADE, node("SequenceAt", "s nine", "y")],
            "(SequenceAt): its position 9 is outside of a sequence of 3.",
        ),
        (
            [node("SequenceEmpty", "", "s"), node("ConcatFromSequence", "s", "y", axis=0)],
            "(ConcatFromSequence): the sequence 's' is empty, so its result has no elements.",
        ),
        (
            [
                MADE,
                node("ReduceSum", "x", "u", keepdims=0),
                node("Cast", "u", "t", to=7),
                node("SequenceAt", "s t", "y"),
            ],
            "(SequenceAt): the position is computed at run time ('t'), but must be a constant.",
        ),
    ],
)
def test_refusals(nodes: list[onnx.NodeProto], expected: str, tmp_path: Path) -> None:
    with pytest.raises(Unsupported) as caught:
        read(model_of(nodes), tmp_path)
    assert str(caught.value).endswith(expected)


def test_a_part_can_be_chosen_as_an_output(tmp_path: Path) -> None:
    model = model_of([node("SequenceConstruct", "x r", "s"), node("SequenceAt", "s one", "y")])
    with pytest.raises(TpucError, match="output 's' is a sequence"):
        read(model, tmp_path, ImportOptions("m", output_names=("s",)))
    assert ops(read(model, tmp_path, ImportOptions("m", output_names=("y",)))) == ["Relu"]
