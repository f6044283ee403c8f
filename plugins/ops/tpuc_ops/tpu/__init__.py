"""The TPU dialect: what a chip will do, with stored types, multipliers and shifts."""

from __future__ import annotations

from tpuc.api import Dialect

DIALECT = Dialect(
    "tpu",
    {
        "Active": "tpuc_ops.tpu.active:Active",
        "Add": "tpuc_ops.tpu.add:Add",
        "AddConst": "tpuc_ops.tpu.add_const:AddConst",
        "Cast": "tpuc_ops.tpu.cast:Cast",
        "Clip": "tpuc_ops.tpu.clip:Clip",
        "Concat": "tpuc_ops.tpu.concat:Concat",
        "Conv2D": "tpuc_ops.tpu.conv2d:Conv2D",
        "Deconv": "tpuc_ops.tpu.deconv:Deconv",
        "Depth2Space": "tpuc_ops.tpu.depth2space:Depth2Space",
        "Div": "tpuc_ops.tpu.div:Div",
        "GenericCpu": "tpuc_ops.tpu.generic_cpu:GenericCpu",
        "Group": "tpuc_ops.tpu.group:Group",
        "LeakyRelu": "tpuc_ops.tpu.leaky_relu:LeakyRelu",
        "Load": "tpuc_ops.tpu.load:Load",
        "Lut": "tpuc_ops.tpu.lut:Lut",
        "MatMul": "tpuc_ops.tpu.matmul:MatMul",
        "Max": "tpuc_ops.tpu.max:Max",
        "Min": "tpuc_ops.tpu.min:Min",
        "Mul": "tpuc_ops.tpu.mul:Mul",
        "MulConst": "tpuc_ops.tpu.mul_const:MulConst",
        "MulShift": "tpuc_ops.tpu.mul_shift:MulShift",
        "PRelu": "tpuc_ops.tpu.prelu:PRelu",
        "Pad": "tpuc_ops.tpu.pad:Pad",
        "Permute": "tpuc_ops.tpu.permute:Permute",
        "Pool2D": "tpuc_ops.tpu.pool2d:Pool2D",
        "Reduce": "tpuc_ops.tpu.reduce:Reduce",
        "Relu": "tpuc_ops.tpu.relu:Relu",
        "Reshape": "tpuc_ops.tpu.reshape:Reshape",
        "Scale": "tpuc_ops.tpu.scale:Scale",
        "Slice": "tpuc_ops.tpu.slice:Slice",
        "Softmax": "tpuc_ops.tpu.softmax:Softmax",
        "Store": "tpuc_ops.tpu.store:Store",
        "Sub": "tpuc_ops.tpu.sub:Sub",
        "Upsample": "tpuc_ops.tpu.upsample:Upsample",
        "Yield": "tpuc_ops.tpu.yield_:Yield",
    },
)
