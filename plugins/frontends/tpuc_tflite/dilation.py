"""Merge dilated convolutions that older converters wrote as a convolution on blocks in the batch."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from tpuc.api import ForeignNode

from tpuc_tflite.graph import Graph, TensorEntry
from tpuc_tflite.importers.window import SAME, VALID

_CONVOLUTIONS = {"CONV_2D": (1, 2), "DEPTHWISE_CONV_2D": (1, 2)}
"""Positions of rows and columns in the filters."""


def with_dilations(graph: Graph) -> Graph:
    """Replace SPACE_TO_BATCH_ND, a convolution, and BATCH_TO_SPACE_ND by the dilated convolution that they compute."""
    made = {node.outputs[0]: node for node in graph.nodes if len(node.outputs) == 1 and not node.domain}
    read = Counter(name for node in graph.nodes for name in node.inputs) + Counter(graph.outputs)
    gone: set[str] = set()
    instead: dict[str, ForeignNode] = {}
    for last in graph.nodes:
        conv = made.get(last.inputs[0]) if last.op_type == "BATCH_TO_SPACE_ND" and last.inputs else None
        first = made.get(conv.inputs[0]) if conv is not None and conv.op_type in _CONVOLUTIONS and conv.inputs else None
        if conv is None or first is None or first.op_type != "SPACE_TO_BATCH_ND":
            continue
        if read[conv.outputs[0]] != 1 or read[first.outputs[0]] != 1:
            continue
        whole = _dilated(graph, first, conv, last)
        if whole is not None:
            instead[conv.outputs[0]] = whole
            gone.update((first.outputs[0], last.outputs[0]))
    nodes = [instead.get(node.outputs[0], node) for node in graph.nodes if node.outputs[0] not in gone]
    return dataclasses.replace(graph, nodes=tuple(nodes)) if gone else graph


def _dilated(graph: Graph, first: ForeignNode, conv: ForeignNode, last: ForeignNode) -> ForeignNode | None:
    """Return the merged node, or None if it would compute something else."""
    blocks, pads = _numbers(graph, first, 1), _numbers(graph, first, 2)
    crops, taps = _numbers(graph, last, 2), _taps(graph, conv)
    attributes = conv.attributes
    plain = all(attributes.get(name, 1) == 1 for name in ("stride_h", "stride_w"))
    plain &= all(attributes.get(name, 1) == 1 for name in ("dilation_h_factor", "dilation_w_factor"))
    mode = attributes.get("padding", SAME)
    if not (plain and len(blocks) == 2 and blocks == _numbers(graph, last, 1) and len(pads) == len(crops) == 4):
        return None
    if len(taps) != 2 or min(blocks) < 1 or mode not in (SAME, VALID):
        return None
    if not _alike(graph, first.inputs[0], first.outputs[0]) or not _alike(graph, conv.outputs[0], last.outputs[0]):
        return None
    sides: list[tuple[int, int]] = []
    for axis, (block, extent) in enumerate(zip(blocks, taps, strict=True)):
        around = extent - 1 if mode == SAME else 0
        before = pads[2 * axis] + around // 2 * block - crops[2 * axis]
        after = pads[2 * axis + 1] + (around - around // 2) * block - crops[2 * axis + 1]
        sides.append((before, after))
    if min(map(min, sides)) < 0:
        return None
    stated = {
        "padding": VALID,
        "dilation_h_factor": blocks[0],
        "dilation_w_factor": blocks[1],
        "pads": (sides[0][0], sides[1][0], sides[0][1], sides[1][1]),
    }
    return dataclasses.replace(
        conv,
        name=last.name,
        inputs=(first.inputs[0], *conv.inputs[1:]),
        outputs=last.outputs,
        attributes={**attributes, **stated},
    )


def _numbers(graph: Graph, node: ForeignNode, index: int) -> Sequence[int]:
    """Return a constant operand as a list of numbers; empty if there is none."""
    data = graph.tensors[node.inputs[index]].data if len(node.inputs) > index and node.inputs[index] else None
    return [] if data is None or data.dtype.kind != "i" else [int(item) for item in data.reshape(-1)]


def _taps(graph: Graph, conv: ForeignNode) -> Sequence[int]:
    shape = graph.tensors[conv.inputs[1]].shape if len(conv.inputs) > 1 and conv.inputs[1] else ()
    return [shape[axis] for axis in _CONVOLUTIONS[conv.op_type]] if len(shape) == 4 else []


def _alike(graph: Graph, left: str, right: str) -> bool:
    """True if both are stored alike: moving stored integers must not change their meaning."""
    a, b = graph.tensors[left], graph.tensors[right]
    return _storage(a) == _storage(b)


def _storage(entry: TensorEntry) -> object:
    stated = entry.quantization
    return entry.kind, None if stated is None else (stated.scales, stated.zero_points)
