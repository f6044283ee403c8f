"""Operators that only give the elements another shape or order."""

from __future__ import annotations

from tpuc.api import ForeignNode, ImportBuilder, Value

from tpuc_onnx.importers.common import TABLE, permute, reshape


@TABLE.imports("Identity", "Dropout", "Cast")
def identity(node: ForeignNode, build: ImportBuilder) -> Value:
    """Nothing happens at inference; every tensor that is computed is float."""
    if node.op_type == "Cast":
        _check_cast(node, build)
    return build.value(node.inputs[0])


@TABLE.imports("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def to_shape(node: ForeignNode, build: ImportBuilder) -> Value:
    """The result's static shape says it all."""
    name = node.outputs[0]
    return reshape(build, build.value(node.inputs[0]), build.shape(name), name)


@TABLE.imports("Transpose")
def transpose(node: ForeignNode, build: ImportBuilder) -> Value:
    """Without `perm` the order is reversed."""
    x = build.value(node.inputs[0])
    order = node.attributes.get("perm", tuple(reversed(range(x.tensor.rank))))
    return permute(build, x, order, node.outputs[0])


def _check_cast(node: ForeignNode, build: ImportBuilder) -> None:
    """Only casts between float types keep their values."""
    from onnx import TensorProto

    floats = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
    if node.attributes["to"] not in floats:
        kind = TensorProto.DataType.Name(node.attributes["to"]).lower()
        raise build.refuse(node, f"a cast of computed values to {kind} is not supported, only to float types")
