"""Normalisations."""

from __future__ import annotations

from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_ops.top.batch_norm import BatchNorm
from tpuc_ops.top.layer_norm import LayerNorm

from tpuc_onnx.importers.common import TABLE, optional_value


@TABLE.imports("BatchNormalization")
def batch_normalization(node: ForeignNode, build: ImportBuilder) -> Value:
    """With fixed statistics only. ONNX orders scale, bias, mean, variance; TOP mean, variance, scale, bias."""
    if node.attributes.get("training_mode", 0):
        raise build.refuse(node, "it still computes its statistics: export the network for inference, not training")
    if not node.attributes.get("spatial", 1):
        raise build.refuse(node, "statistics per element are not supported, only per channel (spatial = 1)")
    x, scale, bias, mean, variance = (build.value(name) for name in node.inputs[:5])
    op = BatchNorm(epsilon=node.attributes.get("epsilon", 1e-5))
    return build.build(op, [x, mean, variance, scale, bias], node.outputs[0])


@TABLE.imports("LayerNormalization")
def layer_normalization(node: ForeignNode, build: ImportBuilder) -> Value:
    """Over all dimensions from `axis` on."""
    x = build.value(node.inputs[0])
    axis = node.attributes.get("axis", -1) % x.tensor.rank
    op = LayerNorm(axis=axis, normalized_shape=x.tensor.dims[axis:], eps=node.attributes.get("epsilon", 1e-5))
    affine = [optional_value(node, build, index) for index in (1, 2)]
    return build.build(op, [x, *affine], node.outputs[0])
