"""The TOP dialect: what a network means, on no chip in particular."""

from __future__ import annotations

from tpuc.api import Dialect

DIALECT = Dialect(
    "top",
    {
        "Add": "tpuc_ops.top.add:Add",
        "AddConst": "tpuc_ops.top.add_const:AddConst",
        "AvgPool": "tpuc_ops.top.avg_pool:AvgPool",
        "BatchNorm": "tpuc_ops.top.batch_norm:BatchNorm",
        "Clip": "tpuc_ops.top.clip:Clip",
        "Conv": "tpuc_ops.top.conv:Conv",
        "Div": "tpuc_ops.top.div:Div",
        "Flatten": "tpuc_ops.top.flatten:Flatten",
        "Input": "tpuc_ops.top.input:Input",
        "MatMul": "tpuc_ops.top.matmul:MatMul",
        "MaxPool": "tpuc_ops.top.max_pool:MaxPool",
        "Mul": "tpuc_ops.top.mul:Mul",
        "MulConst": "tpuc_ops.top.mul_const:MulConst",
        "None": "tpuc_ops.top.none:NoneOp",
        "Permute": "tpuc_ops.top.permute:Permute",
        "Relu": "tpuc_ops.top.relu:Relu",
        "Reshape": "tpuc_ops.top.reshape:Reshape",
        "Scale": "tpuc_ops.top.scale:Scale",
        "Softmax": "tpuc_ops.top.softmax:Softmax",
        "Sub": "tpuc_ops.top.sub:Sub",
        "SubConst": "tpuc_ops.top.sub_const:SubConst",
        "Weight": "tpuc_ops.top.weight:Weight",
    },
)
