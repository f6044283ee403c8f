"""Functions of one value, element by element."""

from __future__ import annotations

from collections.abc import Mapping

from tpuc.api import ForeignNode, ImportBuilder, Op, Value
from tpuc_ops.top.abs import Abs
from tpuc_ops.top.arccos import Arccos
from tpuc_ops.top.arccosh import Arccosh
from tpuc_ops.top.arcsin import Arcsin
from tpuc_ops.top.arcsinh import Arcsinh
from tpuc_ops.top.arctan import Arctan
from tpuc_ops.top.arctanh import Arctanh
from tpuc_ops.top.cast import Cast
from tpuc_ops.top.ceil import Ceil
from tpuc_ops.top.cos import Cos
from tpuc_ops.top.cosh import Cosh
from tpuc_ops.top.elu import Elu
from tpuc_ops.top.erf import Erf
from tpuc_ops.top.exp import Exp
from tpuc_ops.top.floor import Floor
from tpuc_ops.top.gelu import GELU
from tpuc_ops.top.hard_sigmoid import HardSigmoid
from tpuc_ops.top.hard_swish import HardSwish
from tpuc_ops.top.leaky_relu import LeakyRelu
from tpuc_ops.top.log import Log
from tpuc_ops.top.mish import Mish
from tpuc_ops.top.mul import Mul
from tpuc_ops.top.mul_const import MulConst
from tpuc_ops.top.pow import Pow
from tpuc_ops.top.pow2 import Pow2
from tpuc_ops.top.pow3 import Pow3
from tpuc_ops.top.prelu import PRelu
from tpuc_ops.top.reciprocal import Reciprocal
from tpuc_ops.top.round import Round
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.top.sign import Sign
from tpuc_ops.top.silu import SiLU
from tpuc_ops.top.sin import Sin
from tpuc_ops.top.sinh import Sinh
from tpuc_ops.top.softplus import Softplus
from tpuc_ops.top.softsign import Softsign
from tpuc_ops.top.sqrt import Sqrt
from tpuc_ops.top.tan import Tan
from tpuc_ops.top.tanh import Tanh

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.importers.common import TABLE, aligned, is_integer, scalar_operand

_PLAIN: Mapping[str, Op] = {
    "Abs": Abs(),
    "Acos": Arccos(),
    "Acosh": Arccosh(),
    "Asin": Arcsin(),
    "Asinh": Arcsinh(),
    "Atan": Arctan(),
    "Atanh": Arctanh(),
    "Ceil": Ceil(),
    "Cos": Cos(),
    "Cosh": Cosh(),
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
    "Sinh": Sinh(),
    "Softplus": Softplus(),
    "Softsign": Softsign(),
    "Sqrt": Sqrt(),
    "Tan": Tan(),
    "Tanh": Tanh(),
}

_SELU = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}
"""Attributes of Selu with the values that the ONNX operator's text gives them."""


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


@TABLE.imports("Selu")
def selu(node: ForeignNode, build: ImportBuilder) -> Value:
    """`gamma * elu(x)`: ONNX's own body takes `exp(x)` of positive values too, which may be infinite."""
    alpha, gamma = (node.attributes.get(name, default) for name, default in _SELU.items())
    name = node.outputs[0]
    inner = build.build(Elu(alpha=alpha), [build.value(node.inputs[0])], f"{name}_elu")
    return build.build(MulConst(const_val=gamma), [inner], name)


@TABLE.imports("PRelu")
def prelu(node: ForeignNode, build: ImportBuilder) -> Value:
    """The slope is a constant or a value that broadcasts to the operand."""
    return build.build(PRelu(), [build.value(node.inputs[0]), aligned(node, build, 1)], node.outputs[0])


@TABLE.imports("Pow")
def power(node: ForeignNode, build: OnnxBuilder) -> Value:
    """With a number as exponent, as base, or with neither. An integer base gives what is left of the integer."""
    name, kind = node.outputs[0], build.elem_type(node.inputs[0])
    cut = is_integer(kind) and not is_integer(build.elem_type(node.inputs[1]))
    inner = f"{name}_power" if cut else name
    scalar = scalar_operand(node, build)
    if scalar is not None and build.shape(name) == build.shape(node.inputs[1 - scalar[0]]):
        op = Pow(exponent=scalar[1]) if scalar[0] else Pow2(const_val=scalar[1])
        result = build.build(op, [build.value(node.inputs[1 - scalar[0]])], inner)
    else:
        result = build.build(Pow3(), [aligned(node, build, 0), aligned(node, build, 1)], inner)
    return build.build(Cast(to=kind.upper()), [result], name) if cut else result


@TABLE.imports("Gelu")
def gelu(node: ForeignNode, build: ImportBuilder) -> Value:
    """Exact, or by a tanh."""
    op = GELU(approx_mode="tanh" if node.attributes.get("approximate") == "tanh" else "normal")
    return build.build(op, [build.value(node.inputs[0])], node.outputs[0])


@TABLE.imports("Swish")
def swish(node: ForeignNode, build: ImportBuilder) -> Value:
    """``x * sigmoid(alpha * x)``."""
    x, name, alpha = build.value(node.inputs[0]), node.outputs[0], node.attributes.get("alpha", 1.0)
    if alpha == 1.0:
        return build.build(SiLU(), [x], name)
    share = build.build(MulConst(const_val=alpha), [x], f"{name}_scaled")
    return build.build(Mul(), [x, build.build(Sigmoid(), [share], f"{name}_sigmoid")], name)
