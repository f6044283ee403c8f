"""Pooling."""

from __future__ import annotations

from tpuc.api import ForeignNode, Value
from tpuc_ops import top

from tpuc_tflite.building import NCHW, Arranged, TfliteBuilder
from tpuc_tflite.graph import Shape
from tpuc_tflite.importers.common import TABLE, finish, float_only, images
from tpuc_tflite.importers.window import pads_of, strides_of


@TABLE.imports("AVERAGE_POOL_2D", "MAX_POOL_2D")
def pool(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import pooling; padding never counts."""
    x = images(node, build)
    kernel, strides, pads = _geometry(node, build, x.tensor.dims[2:])
    kind = top.MaxPool if node.op_type == "MAX_POOL_2D" else top.AvgPool
    return finish(node, build, kind(kernel_shape=kernel, strides=strides, pads=pads), [x], NCHW)


@TABLE.imports("L2_POOL_2D")
def l2_pool(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import the root of the mean square; padding never counts."""
    float_only(node, build)
    x, name = images(node, build), node.outputs[0]
    kernel, strides, pads = _geometry(node, build, x.tensor.dims[2:])
    squares = build.build(top.Pow(exponent=2.0), [x], f"{name}_squares")
    means = build.build(top.AvgPool(kernel_shape=kernel, strides=strides, pads=pads), [squares], f"{name}_means")
    return finish(node, build, top.Sqrt(), [means], NCHW)


def _geometry(node: ForeignNode, build: TfliteBuilder, size: Shape) -> tuple[Shape, Shape, Shape]:
    """Return kernel, strides, and pads."""
    kernel = (int(node.attributes.get("filter_height", 1)), int(node.attributes.get("filter_width", 1)))
    strides = strides_of(node, build)
    return kernel, strides, pads_of(node, build, size, kernel, strides)
