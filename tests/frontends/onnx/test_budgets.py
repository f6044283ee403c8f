"""Files of a few bytes that would become networks without end are refused at once, and wide operators stay linear."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.helper import make_function, make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from tpuc.errors import InvalidModel
from tpuc_driver.session import Session
from tpuc_onnx import folding, translation

from tests.families import each

OPSETS = [make_opsetid("", 17), make_opsetid("loc", 1)]


def ends(*names: str) -> list[onnx.ValueInfoProto]:
    return [make_tensor_value_info(name, 1, (4,)) for name in names]


def saved(path: Path, nodes: Sequence[onnx.NodeProto], functions: Sequence[onnx.FunctionProto] = ()) -> Path:
    graph = make_graph(nodes, "net", ends("x"), ends("y"))
    onnx.save(make_model(graph, opset_imports=OPSETS, ir_version=9, functions=functions), path)
    return path


def function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    return make_function("loc", name, ["a"], ["b"], nodes, OPSETS)


def calls(*names: str) -> list[onnx.NodeProto]:
    """A chain of calls from `a` to `b`."""
    values = ["a", *(f"t{index}" for index in range(len(names) - 1)), "b"]
    return [make_node(name, [values[i]], [values[i + 1]], domain="loc") for i, name in enumerate(names)]


RELU = make_node("Relu", ["a"], ["b"])
CALL = make_node("F0", ["x"], ["y"], domain="loc")


def doubling(levels: int) -> list[onnx.FunctionProto]:
    return [*(function(f"F{n}", *calls(f"F{n + 1}", f"F{n + 1}")) for n in range(levels)), function(f"F{levels}", RELU)]


def inside_if(name: str) -> onnx.NodeProto:
    branch = make_graph([make_node(name, ["a"], ["c"], domain="loc")], "branch", [], ends("c"))
    return make_node("If", ["going"], ["b"], then_branch=branch, else_branch=branch)


def heavy() -> list[onnx.FunctionProto]:
    block = numpy_helper.from_array(np.zeros(1 << 21, np.float32), "block")
    own = [make_node("Constant", [], ["w"], value=block), make_node("Add", ["a", "w"], ["b"])]
    return [function("F0", *calls(*["F1"] * 64)), function("F1", *own)]


TRUE = numpy_helper.from_array(np.array(True), "going")
ENDLESS: Mapping[str, tuple[list[onnx.FunctionProto], str]] = {
    "doubling": (
        doubling(40),
        r"its inlined functions have 1,099,511,627,776 nodes of [\d,]+ bytes; the limits are 65,536 nodes",
    ),
    "itself": ([function("F0", *calls("F0"))], "its function 'F0' calls itself, which ONNX does not allow"),
    "each other": (
        [
            function("F0", *calls("F1")),
            function("F1", *calls("F2")),
            function("F2", RELU, *calls("F0")[:0], *[make_node("F1", ["a"], ["c"], domain="loc")]),
        ],
        "its function 'F1' calls itself",
    ),
    "in a branch": (
        [function("F0", make_node("Constant", [], ["going"], value=TRUE), inside_if("F0"))],
        "its function 'F0' calls itself",
    ),
    "deep": (
        [*(function(f"F{n}", *calls(f"F{n + 1}")) for n in range(3000)), function("F3000", RELU)],
        "its functions call each other more than 64 deep. Export it without functions.",
    ),
    "more operands than parameters": (
        [function("F0", make_node("F1", ["a", "a"], ["b"], domain="loc")), function("F1", RELU)],
        r"a function does not match its call: .*formal parameters\. Export the network again",
    ),
    "two of one name": (
        [function("F0", RELU), function("F0", RELU)],
        "two of its functions are named 'F0' in the domain 'loc'",
    ),
    "heavy": (heavy(), r"the limits are 65,536 nodes and 268,435,456 bytes of copies"),
}


@each("kind", ENDLESS)
def test_functions_without_end_are_refused_at_once(kind: str, tmp_path: Path) -> None:
    functions, sentence = ENDLESS[kind]
    path = saved(tmp_path / "net.onnx", [CALL], functions)
    start = time.process_time()
    with pytest.raises(InvalidModel, match=sentence):
        Session().transform(path)
    assert time.process_time() - start < 5


def test_functions_of_a_program_are_read(tmp_path: Path) -> None:
    module = Session().transform(saved(tmp_path / "net.onnx", [CALL], doubling(5)))
    assert module.main.operations


def loops(levels: int) -> list[onnx.NodeProto]:
    """Loops in loops, of 1,000 steps each."""
    inner: list[onnx.NodeProto] = [make_node("Relu", ["v0"], ["w0"])]
    for level in range(levels):
        count = numpy_helper.from_array(np.array(1000, np.int64), "")
        border = [
            make_tensor_value_info(f"i{level}", 7, ()),
            make_tensor_value_info(f"c{level}", 9, ()),
            make_tensor_value_info(f"v{level}", 1, (4,)),
        ]
        outputs = [make_tensor_value_info(f"d{level}", 9, ()), make_tensor_value_info(f"w{level}", 1, (4,))]
        body = make_graph([*inner, make_node("Identity", [f"c{level}"], [f"d{level}"])], "body", border, outputs)
        names = ("x", "y") if level == levels - 1 else (f"v{level + 1}", f"w{level + 1}")
        inner = [
            make_node("Constant", [], [f"n{level}"], value=count),
            make_node("Loop", [f"n{level}", "", names[0]], [names[1]], body=body),
        ]
    return inner


def test_loops_in_loops_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "MOST_UNROLLED", 500)
    sentence = r"unrolled, the network has more than 500 nodes here\. Export it with fewer steps\."
    with pytest.raises(InvalidModel, match=sentence):
        Session().transform(saved(tmp_path / "net.onnx", loops(4)))


def test_constants_that_double_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_BYTES", 1 << 22)
    nodes = [make_node("Constant", [], ["k0"], value=numpy_helper.from_array(np.zeros(1 << 10, np.float32), ""))]
    nodes += [make_node("Concat", [f"k{n}", f"k{n}"], [f"k{n + 1}"], axis=0) for n in range(40)]
    nodes += [make_node("ReduceSum", ["k40"], ["s"], keepdims=0), make_node("Add", ["x", "s"], ["y"])]
    sentence = r"the constants that the network computes up to here take [\d,]+ bytes, too many for a network\. Export"
    with pytest.raises(InvalidModel, match=sentence):
        Session().transform(saved(tmp_path / "net.onnx", nodes))


def test_what_takes_many_operands_takes_linear_time(tmp_path: Path) -> None:
    counts: list[int] = []
    for width in (10, 40, 160):  # the first one loads what is needed
        names = [f"a{index}" for index in range(width)]
        nodes = [make_node("Relu", ["x"], [name]) for name in names]
        nodes += [make_node(op, names, [op]) for op in ("Sum", "Max", "Mean")]
        nodes.append(make_node("Concat", names, ["Concat"], axis=0))
        outputs = [*ends("Sum", "Max", "Mean"), make_tensor_value_info("Concat", 1, (4 * width,))]
        graph = make_graph(nodes, "net", ends("x"), outputs)
        onnx.save(make_model(graph, opset_imports=OPSETS, ir_version=9), tmp_path / "net.onnx")
        session = Session(chip="bm1684x", quantize="f16")
        with cProfile.Profile() as profile:
            session.build(session.transform(tmp_path / "net.onnx"))
        counts.append(pstats.Stats(profile).total_calls)  # pyright: ignore[reportAttributeAccessIssue]
    assert counts[2] < 4.4 * counts[1], counts
