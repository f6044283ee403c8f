"""Functions of one value, element by element."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, Op, Value
from tpuc_ops.top.abs import Abs
from tpuc_ops.top.ceil import Ceil
from tpuc_ops.top.cos import Cos
from tpuc_ops.top.elu import Elu
from tpuc_ops.top.erf import Erf
from tpuc_ops.top.exp import Exp
from tpuc_ops.top.floor import Floor
from tpuc_ops.top.hard_sigmoid import HardSigmoid
from tpuc_ops.top.hard_swish import HardSwish
from tpuc_ops.top.leaky_relu import LeakyRelu
from tpuc_ops.top.log import Log
from tpuc_ops.top.mish import Mish
from tpuc_ops.top.pow import Pow
from tpuc_ops.top.prelu import PRelu
from tpuc_ops.top.reciprocal import Reciprocal
from tpuc_ops.top.round import Round
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.top.sign import Sign
from tpuc_ops.top.sin import Sin
from tpuc_ops.top.softplus import Softplus
from tpuc_ops.top.softsign import Softsign
from tpuc_ops.top.sqrt import Sqrt
from tpuc_ops.top.tanh import Tanh

from tpuc_onnx.importers.common import TABLE, aligned, constant_input

_PLAIN: Mapping[str, Op] = {
    "Abs": Abs(),
    "Ceil": Ceil(),
    "Cos": Cos(),
    "Erf": Erf(),
    "Exp": Exp(),
    "Floor": Floor(),
    "HardSwish": HardSwish(),
    "Log": Log(),
    "Mish": Mish(),
    "Reciprocal": Reciprocal(),
    "Round": Round(),
    "Sigmoid": Sigmoid(),
    "Sign": Sign(),
    "Sin": Sin(),
    "Softplus": Softplus(),
    "Softsign": Softsign(),
    "Sqrt": Sqrt(),
    "Tanh": Tanh(),
}


@TABLE.imports(*_PLAIN)
def plain(node: ForeignNode, build: ImportBuilder) -> Value:
    """The op of the same name."""
    return build.build(_PLAIN[node.op_type], [build.value(node.inputs[0])], node.outputs[0])


@TABLE.imports("Elu", "HardSigmoid", "LeakyRelu")
def with_slope(node: ForeignNode, build: ImportBuilder) -> Value:
    """Those with numbers of their own."""
    alpha = node.attributes.get("alpha")
    op: Op
    match node.op_type:
        case "Elu":
            op = Elu(alpha=1.0 if alpha is None else alpha)
        case "HardSigmoid":
            op = HardSigmoid(alpha=0.2 if alpha is None else alpha, beta=node.attributes.get("beta", 0.5))
        case _:
            op = LeakyRelu(alpha=0.01 if alpha is None else alpha)
    return build.build(op, [build.value(node.inputs[0])], node.outputs[0])


@TABLE.imports("PRelu")
def prelu(node: ForeignNode, build: ImportBuilder) -> Value:
    """The slope is a constant or a value that broadcasts to the operand."""
    return build.build(PRelu(), [build.value(node.inputs[0]), aligned(node, build, 1)], node.outputs[0])


@TABLE.imports("Pow")
def power(node: ForeignNode, build: ImportBuilder) -> Value:
    """The exponent is one constant number."""
    exponent = constant_input(node, build, 1, "the exponent")
    if exponent is None or exponent.size != 1:
        raise build.refuse(node, "exponents that differ by element are not supported, only a single number")
    op = Pow(exponent=float(np.asarray(exponent).reshape(())))
    return build.build(op, [build.value(node.inputs[0])], node.outputs[0])
