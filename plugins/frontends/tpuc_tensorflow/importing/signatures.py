"""The number, types, and names of an operation's results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tpuc.api import ArrayAttr, Attribute, ElementType, IntegerAttr, OpaqueType, ScalarType, TensorType, TypeAttr

from tpuc_tensorflow.loading.graphs import GraphNode

_NORM = ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3")

OUTPUT_NAMES: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _NORM),
    **dict.fromkeys(("Switch", "RefSwitch"), ("output_false", "output_true")),
    **dict.fromkeys(("Merge", "RefMerge"), ("output", "value_index")),
    **dict.fromkeys(("TopK", "TopKV2"), ("values", "indices")),
    **dict.fromkeys(("Unique", "UniqueV2"), ("y", "idx")),
    "MaxPoolWithArgmax": ("output", "argmax"),
    "TensorArrayV3": ("handle", "flow"),
    "TensorArrayConcatV3": ("value", "lengths"),
    "TensorListConcatV2": ("tensor", "lengths"),
    "TensorListPopBack": ("output_handle", "tensor"),
}
"""Output names of operations with several outputs; a single output has no significant name, and a number counts
within it.
"""

_COMPARISONS = ("Equal", "Greater", "GreaterEqual", "IsFinite", "IsInf", "IsNan", "Less", "LessEqual", "NotEqual")
_LOGIC = ("All", "Any", "LogicalAnd", "LogicalNot", "LogicalOr", "LogicalXor", "LoopCond")
_BOOL = frozenset((*_COMPARISONS, *_LOGIC))
_NOTHING = frozenset({"Assert", "NoOp", "Assign", "AssignVariableOp", "Print", "SaveV2", "MergeV2Checkpoints"})
_LISTS = ("Tout", "output_types", "dtypes", "T")
_STATED: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("ArgMax", "ArgMin"), ("output_type", "i64")),
    **dict.fromkeys(("Rank", "Shape", "ShapeN", "Size"), ("out_type", "i32")),
    "Cast": ("DstT", "f32"),
    "Bucketize": ("", "i32"),
    "Dequantize": ("dtype", "f32"),
    "Range": ("Tidx", "i32"),
    "Where": ("", "i64"),
}
"""The attribute that states the type, and the type if it is absent."""

_COUNTS: Mapping[str, str] = {
    **dict.fromkeys(("Split", "SplitV"), "num_split"),
    "ShapeN": "N",
    "Unpack": "num",
    "_SwitchN": "num_outs",
}
MOST_RESULTS = 1 << 16


def result_elements(node: GraphNode) -> list[ElementType]:
    """Return the element types of a node's results."""
    if node.op in _NOTHING:
        return []
    if node.op in _BOOL:
        return [ScalarType("i1")]
    for name in _LISTS:
        listed = node.attributes.get(name)
        if isinstance(listed, ArrayAttr):
            return [element_of_attribute(item) for item in listed.items]
    name, default = _STATED.get(node.op, ("", ""))
    if default:
        first: ElementType = ScalarType(default)
        if name in node.attributes:
            first = element_of_attribute(node.attributes[name])
    else:
        first = _usual(node)
    return _several(node, first)


def _usual(node: GraphNode) -> ElementType:
    if node.op == "VarHandleOp":
        return OpaqueType("tf.resource")
    for name in ("T", "dtype", "Tparams", "element_dtype"):
        if name in node.attributes:
            return element_of_attribute(node.attributes[name])
    return OpaqueType("tf.variant")


def _several(node: GraphNode, first: ElementType) -> list[ElementType]:
    count = node.attributes.get(_COUNTS.get(node.op, ""))
    if isinstance(count, IntegerAttr):
        return [first] * min(max(count.value, 0), MOST_RESULTS)
    match node.op:
        case "FusedBatchNorm" | "FusedBatchNormV2" | "FusedBatchNormV3":
            other = element_of_attribute(node.attributes["U"]) if "U" in node.attributes else first
            return [first, *((other,) * (5 if node.op.endswith("V3") else 4))]
        case "TopKV2" | "TopK" | "MaxPoolWithArgmax" | "Unique" | "UniqueV2":
            return [first, ScalarType("i32")]
        case _:
            return [first]


def element_of_attribute(attribute: Attribute) -> ElementType:
    """Return the element type that an attribute states; a variant if it states none."""
    match attribute:
        case TypeAttr(type=ScalarType() as scalar):
            return scalar
        case TypeAttr(type=TensorType(element=element)):
            return element
        case _:
            return OpaqueType("tf.variant")
