"""Expand control flow into the surrounding graph: chosen branches and unrolled loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from tpuc.api import ForeignNode
from tpuc_importing.obstacles import refusal

from tpuc_onnx.checking import check_node
from tpuc_onnx.expansion import identity, needed_protos, own_prefix, renamed
from tpuc_onnx.graph import GraphNode, foreign_node
from tpuc_onnx.shapes import TypeTable
from tpuc_onnx.tensors import tensor_array

CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})
MOST_STEPS = 1024
"""Maximum number of loop steps; each becomes separate operations."""


def is_control_flow(node: ForeignNode) -> bool:
    """True for an operator that is expanded here."""
    return node.op_type in CONTROL_FLOW and not node.domain


def control_nodes(node: GraphNode, types: TypeTable) -> Iterator[GraphNode]:
    """Yield the nodes that replace an If, Loop, or Scan.

    They must be imported one at a time: later nodes may depend on constants folded from earlier ones.
    """
    match node.foreign.op_type:
        case "If":
            protos = _branches(node, types)
        case "Loop":
            protos = _loop(node, types)
        case _:
            protos = _scan(node, types)
    foreign = node.foreign
    for proto in protos:
        inner = GraphNode(proto, foreign_node(proto, {foreign.domain: foreign.version}, foreign.source))
        check_node(inner)
        yield inner


def _branches(node: GraphNode, types: TypeTable) -> Iterator[onnx.NodeProto]:
    """Yield the chosen branch, or both and a selection if the condition is computed."""
    foreign, prefix = node.foreign, own_prefix(node.foreign)
    outputs = list(foreign.outputs)
    condition = types.constants.get(foreign.inputs[0])
    if condition is not None:
        chosen = "then_branch" if bool(np.asarray(condition).reshape(-1)[0]) else "else_branch"
        yield from _inlined(_attribute(node, chosen), {}, prefix, outputs, types, node.foreign.source)
        return
    ways: list[list[str]] = []
    for branch in ("then_branch", "else_branch"):
        ways.append([f"{name}/{branch}" for name in outputs])
        yield from _inlined(_attribute(node, branch), {}, f"{prefix}{branch}/", ways[-1], types, node.foreign.source)
    for name, taken, other in zip(outputs, *ways, strict=True):
        if name and types.shape(taken) != types.shape(other):
            raise refusal(
                node.foreign, f"its branches give '{name}' different shapes, and the choice depends on the data"
            )
        if name:
            yield helper.make_node("Where", [foreign.inputs[0], taken, other], [name], name=name)


def _loop(node: GraphNode, types: TypeTable) -> Iterator[onnx.NodeProto]:
    body: onnx.GraphProto = _attribute(node, "body")
    prefix, limit, condition = own_prefix(node.foreign), *(*node.foreign.inputs, "", "")[:2]
    carried = list(node.foreign.inputs[2:])
    trips = _number(node, types, limit, "its trip count") if limit else None
    going = bool(_number(node, types, condition, "its condition")) if condition else True
    scanned: list[list[str]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    step = 0
    while going and (trips is None or step < trips):
        if step == MOST_STEPS:
            raise refusal(node.foreign, f"it runs more than {MOST_STEPS} steps, too many to unroll")
        inside = f"{prefix}{step}/"
        types.constants[f"{inside}step"] = np.array(step, np.int64)
        types.constants[f"{inside}going"] = np.array(True)
        bound = (f"{inside}step", f"{inside}going", *carried)
        names = dict(zip((entry.name for entry in body.input), bound, strict=True))
        results = [f"{inside}result{index}" for index in range(len(body.output))]
        yield from _inlined(body, names, inside, results, types, node.foreign.source)
        going = bool(_number(node, types, results[0], "its condition")) if body.output[0].name else True
        carried = results[1 : 1 + len(carried)]
        for part, name in zip(scanned, results[1 + len(carried) :], strict=True):
            part.append(name)
        step += 1
    outputs = node.foreign.outputs
    yield from (identity(source, target) for source, target in zip(carried, outputs, strict=False) if target)
    for parts, target in zip(scanned, outputs[len(carried) :], strict=False):
        if target:
            yield from _stacked(node, parts, 0, target)


def _scan(node: GraphNode, types: TypeTable) -> Iterator[onnx.NodeProto]:
    foreign, body = node.foreign, _attribute(node, "body")
    if foreign.version < 9:
        raise refusal(node.foreign, "Scan of opset 8 is not supported; export with opset 9 or later")
    count: int = foreign.attributes["num_scan_inputs"]
    if not 0 < count <= len(foreign.inputs):
        raise refusal(node.foreign, f"num_scan_inputs is {count}, but it has {len(foreign.inputs)} operands")
    states, sources = list(foreign.inputs[: len(foreign.inputs) - count]), foreign.inputs[-count:]
    axes, ways = _per_input(node, "scan_input_axes", count), _per_input(node, "scan_input_directions", count)
    shapes = [types.shape(name) for name in sources]
    if any(shape is None for shape in shapes):
        raise refusal(node.foreign, "the shape of what it scans depends on the data")
    steps = {shape[axis] for shape, axis in zip(shapes, axes, strict=True) if shape is not None}
    if len(steps) != 1 or max(steps) > MOST_STEPS:
        raise refusal(
            node.foreign,
            f"its scanned operands have {sorted(steps)} steps; they must agree, and be at most {MOST_STEPS}",
        )
    (total,) = steps
    scanned: list[list[str]] = [[] for _ in range(len(body.output) - len(states))]
    for step in range(total):
        inside = f"{own_prefix(foreign)}{step}/"
        parts: list[str] = []
        for index, (source, axis, way) in enumerate(zip(sources, axes, ways, strict=True)):
            place, part = f"{inside}place{index}", f"{inside}part{index}"
            types.constants[place] = np.array(total - 1 - step if way else step, np.int64)
            parts.append(part)
            yield helper.make_node("Gather", [source, place], [part], name=part, axis=axis)
        names = dict(zip((entry.name for entry in body.input), (*states, *parts), strict=True))
        results = [f"{inside}result{index}" for index in range(len(body.output))]
        yield from _inlined(body, names, inside, results, types, node.foreign.source)
        states = results[: len(states)]
        for collected, name in zip(scanned, results[len(states) :], strict=True):
            collected.append(name)
    yield from (identity(source, target) for source, target in zip(states, foreign.outputs, strict=False) if target)
    axes, ways = (_per_input(node, name, len(scanned)) for name in ("scan_output_axes", "scan_output_directions"))
    for parts, target, axis, way in zip(scanned, foreign.outputs[len(states) :], axes, ways, strict=False):
        if target:
            yield from _stacked(node, parts[::-1] if way else parts, axis, target)


def _inlined(
    graph: onnx.GraphProto, names: dict[str, str], prefix: str, results: Sequence[str], types: TypeTable, source: str
) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a subgraph whose outputs become `results`; its initializers become constants."""
    names = {"": "", **names}
    for tensor in graph.initializer:
        names[tensor.name] = f"{prefix}{tensor.name}"
        types.constants[names[tensor.name]] = tensor_array(tensor, source)
    inner = {entry.name: f"{prefix}{entry.name}" for entry in graph.output}
    computed = {name for node in graph.node for name in node.output}
    nodes = renamed(graph.node, names, prefix, {})
    nodes += [
        identity(inner[entry.name] if entry.name in computed else names.get(entry.name, entry.name), result)
        for entry, result in zip(graph.output, results, strict=False)
        if result
    ]
    yield from needed_protos(nodes, results)


def _stacked(node: GraphNode, parts: Sequence[str], axis: int, target: str) -> Iterator[onnx.NodeProto]:
    """Stack all parts along a new axis."""
    if not parts:
        raise refusal(node.foreign, f"it never runs, so '{target}' has no elements")
    rows = [f"{part}_row" for part in parts]
    for part, row in zip(parts, rows, strict=True):
        proto = helper.make_node("Unsqueeze", [part], [row], name=row, axes=[axis])
        if node.foreign.version >= 13:
            axes = helper.make_node("Constant", [], [f"{row}_axes"], name=f"{row}_axes", value_ints=[axis])
            proto = helper.make_node("Unsqueeze", [part, f"{row}_axes"], [row], name=row)
            yield axes
        yield proto
    yield helper.make_node("Concat", rows, [target], name=target, axis=axis)


def _attribute(node: GraphNode, name: str) -> Any:
    graph = node.foreign.attributes.get(name)
    if not isinstance(graph, onnx.GraphProto):
        raise refusal(node.foreign, f"it has no graph '{name}'")
    return graph


def _per_input(node: GraphNode, name: str, count: int) -> Sequence[int]:
    return node.foreign.attributes.get(name, (0,) * count)


def _number(node: GraphNode, types: TypeTable, name: str, meaning: str) -> int:
    array = types.constants.get(name)
    if array is None or array.size != 1:
        raise refusal(
            node.foreign, f"{meaning} depends on the data (tensor '{name}'), but compiled networks are static"
        )
    return int(array.reshape(()))
