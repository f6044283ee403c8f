"""The importer table, and windows as TensorFlow states them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tpuc.api import ForeignNode, ImporterTable, Op
from tpuc_tflite.building import Arranged, Results

from tpuc_tensorflow.importers.building import TensorflowBuilder, is_channels_first

TABLE = ImporterTable("tensorflow", "top")

PADDINGS: Mapping[str, int] = {"SAME": 0, "VALID": 1}
"""TFLite's numbers of paddings."""


def as_tflite(operator: str, **names: str) -> Callable[[ForeignNode, TensorflowBuilder], Results]:
    """Return the importer of an operator that TFLite has too; `names` maps TFLite's attribute names to the node's."""

    def importer(node: ForeignNode, build: TensorflowBuilder) -> Results:
        attributes = {ours: node.attributes[theirs] for ours, theirs in names.items() if theirs in node.attributes}
        return build.through(operator, node, attributes=attributes)

    return importer


def plain(op: Op) -> Callable[[ForeignNode, TensorflowBuilder], Results]:
    """Return the importer of a unary function, which keeps its operand's order."""

    def importer(node: ForeignNode, build: TensorflowBuilder) -> Results:
        return in_order(node, build, [op])

    return importer


def in_order(node: ForeignNode, build: TensorflowBuilder, ops: Sequence[Op]) -> Arranged:
    """Apply unary functions one after the other to the first operand."""
    order = build.order(node.inputs[0])
    value = build.value(node.inputs[0], order)
    for index, op in enumerate(ops):
        last = index == len(ops) - 1
        value = build.build(op, [value], node.outputs[0] if last else f"{node.outputs[0]}_{index}")
    return Arranged(value, order)


def rows_and_columns(node: ForeignNode, build: TensorflowBuilder, name: str) -> tuple[int, int]:
    """Return rows and columns of a list with one number per dimension; the other two must be 1."""
    numbers = node.attributes.get(name) or (1, 1, 1, 1)
    if len(numbers) != 4:
        raise build.refuse(node, f"its {name} are {list(numbers)}, but an image has 4 dimensions")
    batch, *rest = numbers
    channels, rows, columns = rest if is_channels_first(node) else (rest[2], *rest[:2])
    if (batch, channels) != (1, 1):
        raise build.refuse(node, f"its {name} {list(numbers)} concern batch or channels, which is not supported")
    return int(rows), int(columns)


def window_attributes(node: ForeignNode, build: TensorflowBuilder) -> dict[str, Any]:
    """Return strides, dilations, and padding under TFLite's names."""
    strides, dilations = (rows_and_columns(node, build, name) for name in ("strides", "dilations"))
    return {
        "stride_h": strides[0],
        "stride_w": strides[1],
        "dilation_h_factor": dilations[0],
        "dilation_w_factor": dilations[1],
        **padding_attributes(node, build),
    }


def padding_attributes(node: ForeignNode, build: TensorflowBuilder) -> dict[str, Any]:
    """Return SAME and VALID by number, explicit pads as top, left, bottom, right."""
    text = node.attributes.get("padding", "VALID")
    if text in PADDINGS:
        return {"padding": PADDINGS[text]}
    pads = node.attributes.get("explicit_paddings") or ()
    if text != "EXPLICIT" or len(pads) != 8:
        raise build.refuse(node, f"padding '{text}' is not known, only SAME, VALID and EXPLICIT with 8 numbers")
    first = 4 if is_channels_first(node) else 2
    top, bottom, left, right = pads[first : first + 4]
    if sum(pads) != top + bottom + left + right or min(pads) < 0:
        raise build.refuse(node, f"its explicit paddings {list(pads)} concern batch or channels, or are negative")
    return {"pads": (top, left, bottom, right)}
