"""Pooling."""

from __future__ import annotations

from tpuc.api import ForeignNode, Value
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.max_pool import MaxPool

from tpuc_tflite.building import NCHW, Arranged, TfliteBuilder
from tpuc_tflite.importers.common import TABLE, finish, images
from tpuc_tflite.importers.window import pads_of, strides_of


@TABLE.imports("AVERAGE_POOL_2D", "MAX_POOL_2D")
def pool(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Padding never counts."""
    x = images(node, build)
    kernel = (int(node.attributes.get("filter_height", 1)), int(node.attributes.get("filter_width", 1)))
    strides = strides_of(node, build)
    pads = pads_of(node, build, x.tensor.dims[2:], kernel, strides)
    kind = MaxPool if node.op_type == "MAX_POOL_2D" else AvgPool
    return finish(node, build, kind(kernel_shape=kernel, strides=strides, pads=pads), [x], NCHW)
