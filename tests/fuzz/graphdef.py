"""Ways to damage a GraphDef in its structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpuc_tensorflow.loading.schema import new_message

from tests.fuzz.mutate import EXTREMES, Random

_OPS = (
    *("Conv2D", "Add", "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "Reshape", "Const", "NoOp"),
    *("StridedSlice", "ConcatV2", "Placeholder", "While", "If", "VarHandleOp", "Einsum", "Unpack", "MatMul", "Foo"),
)
_NAMES = ("", "x", "x:1", "x:99", "^x", ":", "x:-1", "é", "y" * 300, "a\nb")


def mutate_graph(content: bytes, random: Random) -> bytes:
    """One to three changes of nodes, operands, attributes and tensors."""
    graph = new_message("Graph")
    graph.ParseFromString(content)
    for _ in range(int(random.integers(1, 4))):
        if graph.node:
            _choose(_CHANGES, random)(graph, random)
    return graph.SerializeToString()


def _choose(items: Any, random: Random) -> Any:
    return items[int(random.integers(len(items)))]


def _rewire(graph: Any, random: Random) -> None:
    node = _choose(graph.node, random)
    if node.input:
        other = _choose((*_NAMES, *(one.name for one in graph.node)), random)
        node.input[int(random.integers(len(node.input)))] = other


def _change_arity(graph: Any, random: Random) -> None:
    node = _choose(graph.node, random)
    if node.input and random.random() < 0.5:
        del node.input[int(random.integers(len(node.input)))]
    else:
        node.input.append(_choose(graph.node, random).name)


def _change_op(graph: Any, random: Random) -> None:
    _choose(graph.node, random).op = _choose(_OPS, random)


def _change_name(graph: Any, random: Random) -> None:
    _choose(graph.node, random).name = _choose(_NAMES, random)


def _lose_node(graph: Any, random: Random) -> None:
    del graph.node[int(random.integers(len(graph.node)))]


def _repeat_node(graph: Any, random: Random) -> None:
    graph.node.add().CopyFrom(_choose(graph.node, random))


def _lose_attribute(graph: Any, random: Random) -> None:
    node = _choose(graph.node, random)
    if node.attr:
        del node.attr[int(random.integers(len(node.attr)))]


def _change_attribute(graph: Any, random: Random) -> None:
    node = _choose(graph.node, random)
    if not node.attr:
        return
    value = _choose(node.attr, random).value
    match int(random.integers(7)):
        case 0:
            value.i = int(_choose(EXTREMES, random)) % (1 << 62)
        case 1:
            value.f = float(_choose((0.0, -1.0, float("nan"), float("inf"), 1e38), random))
        case 2:
            value.s = _choose((b"", b"SAME", b"NCHW", b"\xff", b"EXPLICIT"), random)
        case 3:
            value.list.i.extend([int(random.integers(-3, 9)) for _ in range(int(random.integers(6)))])
        case 4:
            value.type = int(_choose((1, 2, 3, 7, 9, 10, 14, 19, 20, 101), random))
        case 5:
            value.b = bool(random.integers(2))
        case _:
            value.func.name = "f"


def _change_tensor(graph: Any, random: Random) -> None:
    tensors = [entry.value.tensor for node in graph.node for entry in node.attr if entry.value.HasField("tensor")]
    if not tensors:
        return
    tensor = _choose(tensors, random)
    match int(random.integers(5)):
        case 0:
            tensor.tensor_shape.dim.add(size=int(random.integers(-2, 5)))
        case 1 if tensor.tensor_shape.dim:
            _choose(tensor.tensor_shape.dim, random).size = int(_choose((0, 1, -1, 7, 1 << 40), random))
        case 2:
            tensor.dtype = int(_choose((1, 3, 7, 9, 10, 20), random))
        case 3:
            tensor.tensor_content = tensor.tensor_content[: int(random.integers(len(tensor.tensor_content) + 1))]
        case _:
            content = bytearray(tensor.tensor_content)
            if content:
                content[int(random.integers(len(content)))] = int(random.integers(256))
            tensor.tensor_content = bytes(content)


_CHANGES: tuple[Callable[[Any, Random], None], ...] = (
    *(_rewire, _change_arity, _change_op, _change_name, _lose_node, _repeat_node, _lose_attribute),
    *(_change_attribute, _change_attribute, _change_tensor, _change_tensor),
)
