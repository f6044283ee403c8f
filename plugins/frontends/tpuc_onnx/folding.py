"""Fold nodes whose results are known at compile time."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper
from tpuc.api import ForeignNode, InvalidModel
from tpuc_importing.obstacles import place_of
from tpuc_ops.arrays import Array

from tpuc_onnx.checking import is_bounded
from tpuc_onnx.graph import GraphNode
from tpuc_onnx.shapes import TypeTable

UNREPEATABLE = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
MOST_ELEMENTS = 1 << 28
"""Larger constants are not part of a network but the result of a wrong shape."""
MOST_BYTES, BYTES_PER_BYTE = 1 << 30, 16
"""Maximum bytes of all computed constants, plus this many for each byte of the file's own."""
COMPUTED_AS = {"DequantizeLinear": 19}
"""The oldest opset that onnx's reference evaluates for an operator; older forms are special cases of it."""
ABOUT_SEQUENCES = ("ConcatFromSequence", "Sequence", "SplitToSequence")
"""Name prefixes of operators whose operands or results are not tensors."""
SHAPE_QUESTIONS = frozenset({"Shape", "Size"})


def fold(node: GraphNode, types: TypeTable) -> Sequence[Array] | None:
    """Return the node's results if they are constant, None if it must run."""
    foreign = node.foreign
    if foreign.domain or foreign.op_type in UNREPEATABLE or _has_subgraph(node.proto):
        return None
    if foreign.op_type.startswith(ABOUT_SEQUENCES) or is_bounded(foreign):
        return None
    if foreign.op_type in SHAPE_QUESTIONS:
        shape = types.shape(foreign.inputs[0])
        return None if shape is None else [_answer(foreign, shape)]
    if foreign.op_type == "Constant" and "value" in foreign.attributes:
        return [foreign.attributes["value"]]
    if not all(name in types.constants for name in filter(None, foreign.inputs)):
        return None
    with contextlib.suppress(InvalidModel):  # the evaluation itself is more lenient, as runtimes are
        types.infer(node)
    expected = 0
    for name in filter(None, foreign.outputs):
        size = math.prod(types.shape(name) or ())
        expected += size * helper.tensor_dtype_to_np_dtype(types.elem_type(name)).itemsize
        if size > MOST_ELEMENTS:
            raise InvalidModel(
                f"{place_of(foreign)}: its constant result '{name}' would have "
                f"{size} elements. Export the network again, or check --input-shapes."
            )
    _check_bytes(node.foreign, types, expected)
    results = _evaluate(node, {name: types.constants[name] for name in filter(None, foreign.inputs)})
    if results is not None:
        types.folded_bytes += sum(array.nbytes for array in results)
    _check_bytes(node.foreign, types, 0)
    return results


def _check_bytes(node: ForeignNode, types: TypeTable, more: int) -> None:
    """Raise InvalidModel if all computed constants and `more` bytes exceed what networks have."""
    size = types.folded_bytes + more
    if size > MOST_BYTES + BYTES_PER_BYTE * types.stored_bytes:
        raise InvalidModel(
            f"{place_of(node)}: the constants that the network computes up to here take {size:,} bytes, too many for a "
            "network. Export the network again, or check --input-shapes."
        )


def _answer(node: ForeignNode, shape: tuple[int, ...]) -> Array:
    if node.op_type == "Size":
        return np.array(math.prod(shape), np.int64)
    return np.array(shape[node.attributes.get("start", 0) : node.attributes.get("end")], np.int64)


def _has_subgraph(node: onnx.NodeProto) -> bool:
    return any(attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for attribute in node.attribute)


def _gather_elements(node: ForeignNode, x: Array, indices: Array) -> Array:
    """For each index, select the element at that index along the axis, and at the index's own position elsewhere."""
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    places[node.attributes.get("axis", 0)] = indices
    return x[tuple(places)]


OWN: Mapping[str, Callable[..., Array]] = {"GatherElements": _gather_elements}
"""Operators that onnx's reference evaluates only for some shapes: it requires as many indices as elements on the other
axes, and at most 64 elements along the axis, or 32 with old versions of numpy.
"""

_FAILURES = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError),
    *(RuntimeError, TypeError, ValueError),
)
"""What onnx's reference raises for operands that it does not expect."""
REFUSED = "their shapes or types do not fit each other"
"""What a failed assertion, which has no words, stands for."""


def _evaluate(node: GraphNode, operands: dict[str, Array]) -> Sequence[Array] | None:
    """Return the results of onnx's reference evaluator; None if it does not know the operator."""
    from onnx.reference import ReferenceEvaluator  # few networks need it, and it loads slowly

    foreign = node.foreign
    if (own := OWN.get(foreign.op_type)) is not None:
        try:
            return [own(foreign, *(operands[name] for name in foreign.inputs))]
        except (IndexError, TypeError, ValueError) as error:
            raise _not_computable(foreign, error) from error
    inputs = [onnx.ValueInfoProto(name=name) for name in operands]
    results = [onnx.ValueInfoProto(name=name) for name in foreign.outputs if name]
    graph = helper.make_graph([node.proto], "folding", inputs, results)
    version = max(foreign.version, COMPUTED_AS.get(foreign.op_type, 0))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    try:
        evaluator = ReferenceEvaluator(model)
    except NotImplementedError:
        return None
    except _FAILURES as error:
        raise _not_computable(foreign, error) from error
    try:
        with np.errstate(all="ignore"):
            values: Iterator[Any] = iter(evaluator.run(None, operands))  # pyright: ignore[reportUnknownMemberType]
            arrays = [np.asarray(next(values)) if name else np.empty(0) for name in foreign.outputs]
    except _FAILURES as error:
        raise _not_computable(foreign, error) from error
    if any(array.dtype == object and array.size and not isinstance(array.flat[0], str) for array in arrays):
        raise _not_computable(foreign, ValueError("it does not return a tensor"))
    return arrays


def _not_computable(node: ForeignNode, error: Exception) -> InvalidModel:
    return InvalidModel(
        f"{place_of(node)}: its operands are constants, but it cannot be computed: "
        f"{str(error).rstrip('.') or REFUSED}. Export the network again, or check --input-shapes."
    )
