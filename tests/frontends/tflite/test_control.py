"""Branches and loops: written out where their course is known, refused in a sentence where it depends on the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import InvalidModel, Unsupported

from tests.families import each
from tests.frontends.tflite.files import Node, Subgraph, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import compute, ops_of, read, values

X, Y = Tensor("x", (1, 4)), Tensor("y", (1, 4))
BRANCHES = ("IfOptions", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2})
PARTS = ("WhileOptions", {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2})


def way(op: str, shape: tuple[int, ...] = (1, 4)) -> Subgraph:
    return Subgraph([Tensor("x", (1, 4)), Tensor("r", shape)], [Node(op, ["x"], ["r"])], ["x"], ["r"])


@each("chosen", [True, False])
def test_a_known_condition_chooses(chosen: bool, tmp_path: Path) -> None:
    tensors = [X, constant("c", np.array(chosen)), Y]
    content = tflite_file(
        tensors, [Node("IF", ["c", "x"], ["y"], BRANCHES)], ["x"], ["y"], more=[way("ABS"), way("NEG")]
    )
    module = read(content, tmp_path)
    x = values(1, 4)
    np.testing.assert_array_equal(compute(module, x)[0], np.abs(x) if chosen else -x)
    assert ops_of(module) == ["Abs" if chosen else "MulConst"]


def test_a_computed_condition_selects(tmp_path: Path) -> None:
    tensors = [X, Tensor("c", (1,), "BOOL"), Y]
    content = tflite_file(
        tensors, [Node("IF", ["c", "x"], ["y"], BRANCHES)], ["x", "c"], ["y"], more=[way("ABS"), way("NEG")]
    )
    module, x = read(content, tmp_path), values(1, 4)
    for chosen in (0.0, 1.0):
        (ours,) = compute(module, x, np.array([chosen], np.float32))
        np.testing.assert_array_equal(ours, np.abs(x) if chosen else -x)


def loop(steps: int, condition_reads: str = "i") -> bytes:
    """Doubles x and adds the number of the step, `steps` times."""
    condition = Subgraph(
        [
            Tensor("i", (), "INT32"),
            Tensor("v", (1, 4)),
            constant("n", np.array(steps, np.int32)),
            Tensor("g", (), "BOOL"),
        ],
        [Node("LESS", [condition_reads, "n"], ["g"])],
        ["i", "v"],
        ["g"],
    )
    body = Subgraph(
        [
            Tensor("i", (), "INT32"),
            Tensor("v", (1, 4)),
            constant("one", np.array(1, np.int32)),
            constant("two", np.array(2, np.float32)),
            Tensor("f", (), "FLOAT32"),
            Tensor("d", (1, 4)),
            Tensor("following", (), "INT32"),
            Tensor("r", (1, 4)),
        ],
        [
            Node("ADD", ["i", "one"], ["following"], ("AddOptions", {})),
            Node("CAST", ["i"], ["f"]),
            Node("MUL", ["v", "two"], ["d"], ("MulOptions", {})),
            Node("ADD", ["d", "f"], ["r"], ("AddOptions", {})),
        ],
        ["i", "v"],
        ["following", "r"],
    )
    tensors = [X, constant("zero", np.array(0, np.int32)), Tensor("last", (), "INT32"), Y]
    nodes = [Node("WHILE", ["zero", "x"], ["last", "y"], PARTS)]
    return tflite_file(tensors, nodes, ["x"], ["y"], more=[condition, body])


@each("steps", [1, 5])
def test_a_counted_loop_is_unrolled(steps: int, tmp_path: Path) -> None:
    module = read(loop(steps), tmp_path)
    x = values(1, 4)
    expected = x.astype(np.float64)
    for step in range(steps):
        expected = 2 * expected + step
    # One rounding of float32 per step.
    np.testing.assert_allclose(compute(module, x)[0], expected, rtol=1e-6, atol=1e-6)
    assert set(ops_of(module)) <= {"MulConst", "AddConst"}


def test_a_loop_that_never_runs(tmp_path: Path) -> None:
    x = values(1, 4)
    np.testing.assert_array_equal(compute(read(loop(0), tmp_path), x)[0], x)


@each(
    ("content", "reason"),
    [
        (loop(5, "v"), r"node 'last' \(WHILE\): its end depends on the data, but compiled networks are"),
        (loop(100000), r"node 'last' \(WHILE\): it runs more than 1024 steps, too many to unroll\.$"),
    ],
)
def test_loops_without_a_known_course(content: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=reason):
        read(content, tmp_path)


def refused(tmp_path: Path, condition: Tensor, more: list[Subgraph], inputs: list[str]) -> str:
    tensors = [X, condition, Y]
    content = tflite_file(tensors, [Node("IF", ["c", "x"], ["y"], BRANCHES)], inputs, ["y"], more=more)
    with pytest.raises((InvalidModel, Unsupported)) as caught:
        read(content, tmp_path)
    return str(caught.value)


def test_branches_of_different_shapes(tmp_path: Path) -> None:
    pick = Subgraph(
        [Tensor("x", (1, 4)), constant("a", np.array([1], np.int32)), Tensor("r", (1, 1))],
        [Node("SUM", ["x", "a"], ["r"], ("ReducerOptions", {"KeepDims": True}))],
        ["x"],
        ["r"],
    )
    said = refused(tmp_path, Tensor("c", (1,), "BOOL"), [way("ABS"), pick], ["x", "c"])
    assert "its branches give 'y' different shapes, and the choice depends on the data" in said


def test_graphs_that_are_not_there(tmp_path: Path) -> None:
    said = refused(tmp_path, constant("c", np.array(True)), [way("ABS")], ["x"])
    assert "is damaged: node 'y' runs graph 2, which does not exist" in said


def test_graphs_inside_themselves(tmp_path: Path) -> None:
    again = Subgraph(
        [Tensor("x", (1, 4)), constant("c", np.array(True)), Tensor("r", (1, 4))],
        [Node("IF", ["c", "x"], ["r"], BRANCHES)],
        ["x"],
        ["r"],
    )
    said = refused(tmp_path, constant("c", np.array(True)), [again, way("ABS")], ["x"])
    assert "its subgraphs are nested more than 8 deep" in said


def test_everything_wrong_inside_is_told(tmp_path: Path) -> None:
    said = refused(tmp_path, constant("c", np.array(True)), [way("RFFT2D"), way("ABS")], ["x"])
    assert said.endswith(
        "node 'y/branch/r' (RFFT2D): it computes complex numbers: compute spectra before the network, or express them "
        "as matrix products."
    )


def svdf(rank: int = 2, variable: bool = True) -> tuple[bytes, dict[str, Any]]:
    weights = {"f": values(6, 4, seed=1), "t": values(6, 5, seed=2), "b": values(6 // rank, seed=3)}
    tensors = [
        Tensor("x", (2, 4)),
        *(constant(name, array) for name, array in weights.items()),
        Tensor("s", (2, 30), is_variable=variable),
        Tensor("y", (2, 6 // rank)),
    ]
    node = Node("SVDF", ["x", "f", "t", "b", "s"], ["y"], ("SVDFOptions", {"Rank": rank}))
    return tflite_file(tensors, [node], ["x"], ["y"]), weights


@each("rank", [1, 2])
def test_states_go_in_and_come_out(rank: int, tmp_path: Path) -> None:
    content, weights = svdf(rank)
    module = read(content, tmp_path)
    assert [value.name for value in module.main.inputs] == ["x", "s"]
    assert [value.name for value in module.main.outputs] == ["y", "s_next"]
    state, features = np.zeros((2, 30), np.float32), np.zeros((2, 6, 5))
    for step in range(7):
        x = values(2, 4, seed=10 + step)
        features = np.concatenate([features[..., 1:], (x @ weights["f"].T.astype(np.float64))[..., None]], -1)
        expected = (features * weights["t"]).sum(-1).reshape(2, 6 // rank, rank).sum(-1) + weights["b"]
        y, state = compute(module, x, state)
        # Sums of at most 14 products between -16 and 16 in float32.
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)


def test_a_state_must_be_a_variable(tmp_path: Path) -> None:
    content, _ = svdf()
    with pytest.raises((InvalidModel, Unsupported), match=r"reads tensor 's', which nothing computes"):
        read(svdf(variable=False)[0], tmp_path)
    assert read(content, tmp_path)


def test_a_branch_with_other_operands(tmp_path: Path) -> None:
    two = Subgraph([X, Tensor("z", (1, 4)), Tensor("r", (1, 4))], [Node("ADD", ["x", "z"], ["r"])], ["x", "z"], ["r"])
    tensors = [X, constant("c", np.array(True)), Y]
    content = tflite_file(tensors, [Node("IF", ["c", "x"], ["y"], BRANCHES)], ["x"], ["y"], more=[two, way("NEG")])
    with pytest.raises(Unsupported, match=r"node 'y' \(IF\): it gives 1 operands to a subgraph of 2\.$"):
        read(content, tmp_path)
