"""Resource variables become inputs and outputs: run by run as LiteRT, which keeps them inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Unsupported
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session

from tests.families import each
from tests.frontends.tflite.files import Node, Subgraph, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import read

Array = NDArray[Any]
ONCE = ("CallOnceOptions", {"InitSubgraphIndex": 1})


def handle(name: str) -> Node:
    return Node("VAR_HANDLE", [], [f"{name}_handle"], ("VarHandleOptions", {"SharedName": name}))


def resource(name: str) -> Tensor:
    return Tensor(f"{name}_handle", (1,), "RESOURCE")


def starts(start: float = 0.0, kind: str = "FLOAT32", zero: int = 0) -> Subgraph:
    dtype = {"FLOAT32": np.float32, "INT8": np.int8}[kind]
    scales, zeros = ([0.05], [zero]) if kind == "INT8" else ([], [])
    values = {"ring": np.full((1, 3, 4), start + zero, dtype), "count": np.full((1, 1, 4), start + zero, dtype)}
    return Subgraph(
        [*map(resource, values), *(constant(f"{name}_start", array, scales, zeros) for name, array in values.items())],
        [*map(handle, values), *(Node("ASSIGN_VARIABLE", [f"{n}_handle", f"{n}_start"], []) for n in values)],
        [],
        [],
    )


def streaming(kind: str = "FLOAT32", zero: int = 0, start: float = 0.0) -> bytes:
    """A window of four frames slides over the input, as in networks that spot keywords, and a decaying sum counts what
    was seen: the sum is written before it is read a second time.
    """
    scale = {"scales": (0.05,), "zeros": (zero,)} if kind == "INT8" else {}
    shapes = {
        "x": (1, 1, 4),
        "state": (1, 3, 4),
        "window": (1, 4, 4),
        "next": (1, 3, 4),
        "mean": (1, 4),
        "sum": (1, 1, 4),
        "added": (1, 1, 4),
        "again": (1, 1, 4),
        "total": (1, 1, 4),
    }
    tensors = [
        *(Tensor(name, shape, kind, **scale) for name, shape in shapes.items()),
        *map(resource, ("ring", "count")),
        constant("begin", np.array([0, 1, 0], np.int32)),
        constant("end", np.array([1, 4, 4], np.int32)),
        constant("strides", np.array([1, 1, 1], np.int32)),
        constant("axis", np.array([1], np.int32)),
    ]
    nodes = [
        Node("CALL_ONCE", [], [], ONCE),
        *(handle("ring"), handle("count")),
        Node("READ_VARIABLE", ["ring_handle"], ["state"]),
        Node("CONCATENATION", ["state", "x"], ["window"], ("ConcatenationOptions", {"Axis": 1})),
        Node("STRIDED_SLICE", ["window", "begin", "end", "strides"], ["next"], ("StridedSliceOptions", {})),
        Node("ASSIGN_VARIABLE", ["ring_handle", "next"], []),
        Node("MEAN", ["window", "axis"], ["mean"], ("ReducerOptions", {})),
        Node("READ_VARIABLE", ["count_handle"], ["sum"]),
        Node("ADD", ["sum", "x"], ["added"], ("AddOptions", {})),
        Node("ASSIGN_VARIABLE", ["count_handle", "added"], []),
        Node("READ_VARIABLE", ["count_handle"], ["again"]),
        Node("ADD", ["again", "x"], ["total"], ("AddOptions", {})),
    ]
    return tflite_file(tensors, nodes, ["x"], ["mean", "total"], more=[starts(start, kind, zero)])


def frames(kind: str) -> list[Array]:
    random = np.random.default_rng(4)
    if kind == "INT8":
        return [random.integers(-20, 20, (1, 1, 4)).astype(np.int8) for _ in range(100)]
    return [(random.normal(size=(1, 1, 4)) / 8).astype(np.float32) for _ in range(100)]


def by_litert(content: bytes, samples: list[Array]) -> list[list[Array]]:
    litert: Any = pytest.importorskip("ai_edge_litert.interpreter", reason="needs ai-edge-litert")
    interpreter = litert.Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    (entry,), results = interpreter.get_input_details(), interpreter.get_output_details()
    found: list[list[Array]] = []
    for sample in samples:
        interpreter.set_tensor(entry["index"], sample)
        interpreter.invoke()
        found.append([interpreter.get_tensor(one["index"]).copy() for one in results])
    return found


@pytest.mark.parametrize(("kind", "zero", "start"), [("FLOAT32", 0, 0.0), ("FLOAT32", 0, 1.5), ("INT8", -3, 0.0)])
def test_a_hundred_frames_as_litert(kind: str, zero: int, start: float, tmp_path: Path) -> None:
    """From zeros on, whatever the variables start at."""
    content, samples = streaming(kind, zero, start), frames(kind)
    interpreter = Interpreter(read(content, tmp_path))
    assert [*interpreter.inputs] == ["x", "ring", "count"]
    assert [*interpreter.output_names] == ["mean", "total", "ring_next", "count_next"]
    dtype = samples[0].dtype
    states = {name: np.full(interpreter.inputs[name].dims, zero, dtype) for name in ("ring", "count")}
    for sample, wanted in zip(samples, by_litert(content, samples), strict=True):
        got = interpreter.run({"x": sample, **states})
        for name, array in zip(("mean", "total"), wanted, strict=True):
            np.testing.assert_allclose(
                got[name].reshape(array.shape), array, rtol=0, atol=1 if kind == "INT8" else 1e-5
            )
        states = {name: got[f"{name}_next"] for name in states}


@pytest.mark.chip("bm1684x")
def test_a_compiled_file_frame_by_frame(tmp_path: Path) -> None:
    content, samples = streaming(), frames("FLOAT32")
    path = tmp_path / "streaming.tflite"
    path.write_bytes(content)
    session = Session(chip="bm1684x", quantize="f32")
    loaded = session.chip.load(session.build(session.transform(path)).data)
    states = {"ring": np.zeros((1, 3, 4), np.float32), "count": np.zeros((1, 1, 4), np.float32)}
    for sample, wanted in zip(samples, by_litert(content, samples), strict=True):
        got = loaded.run({"x": sample, **states})
        np.testing.assert_allclose(got["mean"].reshape(1, 4), wanted[0], rtol=0, atol=1e-5)
        np.testing.assert_allclose(got["total"].reshape(1, 1, 4), wanted[1], rtol=0, atol=1e-5)
        states = {name: got[f"{name}_next"].reshape(states[name].shape) for name in states}


def test_integers_with_other_starts(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="variable 'ring' starts at integers other than 0, which nothing would give"):
        read(streaming("INT8", -3, start=1.0), tmp_path)


@each(
    ("node", "reason"),
    [
        (
            Node("ASSIGN_VARIABLE", ["v_handle", "x"], []),
            "ASSIGN_VARIABLE in a branch or loop: whether a state changes",
        ),
        (
            Node("READ_VARIABLE", ["v_handle"], ["w"]),
            "READ_VARIABLE in a branch or loop: the converter left a weight in",
        ),
    ],
)
def test_a_variable_in_a_branch(node: Node, reason: str, tmp_path: Path) -> None:
    ways = [
        Subgraph(
            [Tensor("x", (1, 4)), resource("v"), Tensor("w", (1, 4)), Tensor("r", (1, 4))],
            [handle("v"), node, Node("ABS", ["x"], ["r"])],
            ["x"],
            ["r"],
        )
    ] * 2
    branches = ("IfOptions", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2})
    tensors = [Tensor("x", (1, 4)), Tensor("c", (1,), "BOOL"), Tensor("y", (1, 4))]
    content = tflite_file(tensors, [Node("IF", ["c", "x"], ["y"], branches)], ["x", "c"], ["y"], more=ways)
    with pytest.raises(Unsupported, match=reason):
        read(content, tmp_path)
