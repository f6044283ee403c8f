"""The TPU dialect: what a chip will do, with stored types, multipliers and shifts."""

from __future__ import annotations

from tpuc.api import Dialect

DIALECT = Dialect(
    "tpu",
    {
        "Add": "tpuc_ops.tpu.add:Add",
        "Cast": "tpuc_ops.tpu.cast:Cast",
        "Concat": "tpuc_ops.tpu.concat:Concat",
        "Conv2D": "tpuc_ops.tpu.conv2d:Conv2D",
        "MatMul": "tpuc_ops.tpu.matmul:MatMul",
        "Permute": "tpuc_ops.tpu.permute:Permute",
        "Pool2D": "tpuc_ops.tpu.pool2d:Pool2D",
        "Relu": "tpuc_ops.tpu.relu:Relu",
        "Reshape": "tpuc_ops.tpu.reshape:Reshape",
        "Softmax": "tpuc_ops.tpu.softmax:Softmax",
        "Sub": "tpuc_ops.tpu.sub:Sub",
    },
)
