"""Loops that fill lists of tensors by TensorFlow's operators, as files with `SELECT_TF_OPS` have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.families import each
from tests.frontends.tflite.files import Node, Subgraph, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import compute, read, values

PARTS = ("WhileOptions", {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2})
BRANCHES = ("IfOptions", {"ThenSubgraphIndex": 3, "ElseSubgraphIndex": 4})
CARRIED = [Tensor("t", (), "INT32"), Tensor("list", (), "VARIANT"), Tensor("x", (4, 1, 3))]


def flex(kind: str, inputs: list[str], output: str) -> Node:
    return Node("CUSTOM", inputs, [output], custom=f"FlexTensorList{kind}")


def way(op: str) -> Subgraph:
    """Abs or Neg of the element."""
    tensors = [Tensor("list", (), "VARIANT"), Tensor("v", (1, 3)), Tensor("w", (1, 3)), Tensor("kept", (), "VARIANT")]
    nodes = [Node(op, ["v"], ["w"]), flex("SetItem", ["list", "place", "w"], "kept")]
    return Subgraph([*tensors, constant("place", np.array(1, np.int32))], nodes, ["list", "v"], ["kept"])


@each("chosen", [True, False])
def test_a_loop_that_fills_a_list_and_a_choice_of_lists(chosen: bool, tmp_path: Path) -> None:
    """list[t] = x[t] * 2, then list[1] = |list[0]| or -list[0], as the data say."""
    names = [tensor.name for tensor in CARRIED]
    condition = Subgraph(
        [*CARRIED, constant("n", np.array(4, np.int32)), Tensor("less", (), "BOOL")],
        [Node("LESS", ["t", "n"], ["less"])],
        names,
        ["less"],
    )
    inner = [Tensor("now", (1, 3)), Tensor("twice", (1, 3)), Tensor("filled", (), "VARIANT"), Tensor("u", (), "INT32")]
    body = Subgraph(
        [*CARRIED, *inner, constant("one", np.array(1, np.int32)), constant("two", np.array(2, np.float32))],
        [
            Node("GATHER", ["x", "t"], ["now"], ("GatherOptions", {"Axis": 0})),
            Node("MUL", ["now", "two"], ["twice"], ("MulOptions", {})),
            flex("SetItem", ["list", "t", "twice"], "filled"),
            Node("ADD", ["t", "one"], ["u"], ("AddOptions", {})),
        ],
        names,
        ["u", "filled", "x"],
    )
    tensors = [
        *(Tensor("x", (4, 1, 3)), Tensor("c", (1,), "BOOL"), Tensor("y", (4, 1, 3)), Tensor("first", (1, 3))),
        *(Tensor(name, (), "VARIANT") for name in ("made", "end", "other")),
        *(Tensor("last", (), "INT32"), Tensor("same", (4, 1, 3))),
        *(constant("zero", np.array(0, np.int32)), constant("n", np.array(4, np.int32))),
        constant("shape", np.array([1, 3], np.int32)),
    ]
    nodes = [
        flex("Reserve", ["shape", "n"], "made"),
        Node("WHILE", ["zero", "made", "x"], ["last", "end", "same"], PARTS),
        flex("GetItem", ["end", "zero", "shape"], "first"),
        Node("IF", ["c", "end", "first"], ["other"], BRANCHES),
        flex("Stack", ["other", "shape"], "y"),
    ]
    more = [condition, body, way("ABS"), way("NEG")]
    module = read(tflite_file(tensors, nodes, ["x", "c"], ["y"], more=more), tmp_path)
    x = values(4, 1, 3)
    wanted = 2 * x
    wanted[1] = np.abs(wanted[0]) if chosen else -wanted[0]
    np.testing.assert_array_equal(compute(module, x, np.array([chosen], np.float32))[0], wanted)
