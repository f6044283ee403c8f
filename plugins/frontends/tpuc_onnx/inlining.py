"""Inline a model's functions, unless that exceeds the size of any real network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import onnx
from onnx import inliner
from tpuc.api import InvalidModel

MOST_NODES = 1 << 16
"""Maximum number of nodes after inlining; large networks have a few hundred per layer."""
MOST_COPIED_BYTES = 1 << 28
"""Maximum bytes of functions that are called more than once."""
DEEPEST = 64
"""Maximum depth of function calls; exporters create one function per class of a program."""
_Key: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True)
class _Size:
    """Size of a function or a graph after inlining."""

    nodes: int
    size_bytes: int
    depth: int


def inlined(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """Return the model without local functions; raises InvalidModel for recursion or too many nodes."""
    if not model.functions:
        return model
    functions: dict[_Key, onnx.FunctionProto] = {}
    for one in model.functions:
        if functions.setdefault((one.domain, one.name, one.overload), one) is not one:
            raise InvalidModel(
                f"{path}: two of its functions are named '{one.name}' in the domain '{one.domain}'. Export it again."
            )
    sizes: dict[_Key, _Size] = {}
    for key in functions:
        _measure(key, functions, sizes, path)
    whole = _total(model.graph.node, sizes)
    own = sum(one.ByteSize() for one in functions.values())
    if whole.nodes > MOST_NODES + _count(model.graph.node) or whole.size_bytes > MOST_COPIED_BYTES + own:
        raise InvalidModel(
            f"{path}: its inlined functions have {whole.nodes:,} nodes of {whole.size_bytes:,} bytes; the limits are "
            f"{MOST_NODES:,} nodes and {MOST_COPIED_BYTES:,} bytes of copies. Export it without functions."
        )
    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        reason = " ".join(str(error).rpartition("failed:")[2].split()).rstrip(".")
        raise InvalidModel(
            f"{path}: a function does not match its call: {reason}. Export the network again."
        ) from error


def _measure(first: _Key, functions: dict[_Key, onnx.FunctionProto], sizes: dict[_Key, _Size], path: Path) -> None:
    """Record the sizes of a function and of everything that it calls, callees first."""
    waiting: list[tuple[_Key, Iterator[_Key]]] = [(first, _calls(first, functions))]
    opened = {first}
    while waiting:
        key, calls = waiting[-1]
        following = next((one for one in calls if one not in sizes), None)
        if following is None:
            waiting.pop()
            opened.discard(key)
            function = functions[key]
            size = _total(function.node, sizes)
            sizes[key] = _Size(size.nodes, size.size_bytes + function.ByteSize(), size.depth + 1)
            if sizes[key].depth > DEEPEST:
                raise InvalidModel(
                    f"{path}: its functions call each other more than {DEEPEST} deep. Export it without functions."
                )
        elif following in opened:
            raise InvalidModel(
                f"{path}: its function '{following[1]}' calls itself, which ONNX does not allow. Export it again."
            )
        else:
            waiting.append((following, _calls(following, functions)))
            opened.add(following)


def _calls(key: _Key, functions: dict[_Key, onnx.FunctionProto]) -> Iterator[_Key]:
    return (one for node in _nodes(functions[key].node) if (one := _called(node)) in functions)


def _total(nodes: Iterable[onnx.NodeProto], sizes: dict[_Key, _Size]) -> _Size:
    """Return the size of nodes and of the functions they call, without the nodes' own bytes."""
    count, size_bytes, depth = 0, 0, 0
    for node in _nodes(nodes):
        called = sizes.get(_called(node))
        count += 1 if called is None else called.nodes
        if called is not None:
            size_bytes += called.size_bytes
            depth = max(depth, called.depth)
    return _Size(count, size_bytes, depth)


def _count(nodes: Iterable[onnx.NodeProto]) -> int:
    return sum(1 for _ in _nodes(nodes))


def _called(node: onnx.NodeProto) -> _Key:
    return node.domain, node.op_type, node.overload


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield all nodes, including those of subgraphs."""
    waiting = [nodes]
    while waiting:
        for node in waiting.pop():
            yield node
            for attribute in node.attribute:
                graphs = [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
                waiting += [graph.node for graph in graphs]
