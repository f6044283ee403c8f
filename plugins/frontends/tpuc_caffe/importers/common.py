"""The importer table, and code shared by several families of importers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, ImporterTable, Op, Value
from tpuc_importing.finding import Importer
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function
from tpuc_ops.shapes import positive_axis

from tpuc_caffe.weights import Blob

Shape: TypeAlias = tuple[int, ...]
Parameters: TypeAlias = Mapping[str, Any]

TABLE = ImporterTable("caffe", "top")

LARGEST = float(np.finfo(np.float32).max)


def parameters(node: ForeignNode, group: str) -> Parameters:
    """Return what the layer states in a parameter group such as `convolution_param`."""
    return node.attributes.get(group, {})


def weights(node: ForeignNode, build: ImportBuilder, *wanted: Blob) -> list[Value]:
    """Return the layer's weights as values; raises MissingWeights if their number differs or there are none."""
    arrays = arrays_of(node, *wanted)
    return [build.weight(f"{node.name}_{index}", array) for index, array in enumerate(arrays)]


def arrays_of(node: ForeignNode, *wanted: Blob) -> list[Array]:
    """As `weights`, but return the arrays."""
    return node.attributes["weights"].take(wanted)


def stored(node: ForeignNode) -> int | None:
    """Return the number of weights in the caffemodel for the layer; None without a caffemodel."""
    blobs = node.attributes["weights"].blobs
    return None if blobs is None else len(blobs)


def only_bottom(node: ForeignNode, build: ImportBuilder) -> Value:
    """Return the operand of a layer with one bottom."""
    check_bottoms(node, build, 1)
    return build.value(node.inputs[0])


def check_bottoms(node: ForeignNode, build: ImportBuilder, *counts: int) -> None:
    """Refuse another number of bottoms."""
    if len(node.inputs) not in counts:
        wanted = " or ".join(map(str, counts))
        raise build.refuse(node, f"it has {len(node.inputs)} bottoms, and a layer of this type needs {wanted}")


def unary(node: ForeignNode, build: ImportBuilder, op: Op) -> Value:
    """Build an op with one operand and one result."""
    return build.build(op, [only_bottom(node, build)], node.outputs[0])


def plain_function(op: type[Function]) -> Importer:
    """Return the importer of a layer without parameters."""
    return lambda node, build: unary(node, build, op())


def axis_of(value: Value, axis: int) -> int:
    """Return `axis` counted from the front; raises ValueError if it does not exist."""
    return positive_axis(axis, value.tensor.rank)


def pair(stated: Parameters, name: str, height: str, width: str, default: int) -> tuple[int, int]:
    """Return rows and columns of a window attribute: stated as one list, as two fields, or the default."""
    if height in stated or width in stated:
        return stated.get(height, default), stated.get(width, default)
    match stated.get(name, ()):
        case ():
            return default, default
        case (both,):
            return both, both
        case (rows, columns):
            return rows, columns
        case values:
            raise ValueError(f"{name} has {len(values)} values, for rows and columns there are at most 2")
