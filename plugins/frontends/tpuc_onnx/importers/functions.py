"""Unary functions with parameters; those without are found by the names stated in their op's file."""

from __future__ import annotations

from tpuc.api import ForeignNode, ImportBuilder, Op, Value
from tpuc_importing.operands import scalar_operand
from tpuc_ops import top

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.importers.common import TABLE, aligned, is_integer

_SELU = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}
"""Default attributes of Selu, from the ONNX operator's text."""


@TABLE.imports("Elu", "HardSigmoid", "LeakyRelu")
def with_slope(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import functions with parameters."""
    alpha = node.attributes.get("alpha")
    op: Op
    match node.op_type:
        case "Elu":
            op = top.Elu(alpha=1.0 if alpha is None else alpha)
        case "HardSigmoid":
            op = top.HardSigmoid(alpha=0.2 if alpha is None else alpha, beta=node.attributes.get("beta", 0.5))
        case _:
            op = top.LeakyRelu(alpha=0.01 if alpha is None else alpha)
    return build.build(op, [build.value(node.inputs[0])], node.outputs[0])


@TABLE.imports("Reciprocal")
def reciprocal(node: ForeignNode, build: ImportBuilder) -> Value:
    """``1 / x``."""
    return build.build(top.Reciprocal(), [build.value(node.inputs[0])], node.outputs[0])


@TABLE.imports("Selu")
def selu(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import `gamma * elu(x)`; ONNX's own body also takes `exp(x)` of positive values, which may be infinite."""
    alpha, gamma = (node.attributes.get(name, default) for name, default in _SELU.items())
    name = node.outputs[0]
    inner = build.build(top.Elu(alpha=alpha), [build.value(node.inputs[0])], f"{name}_elu")
    return build.build(top.MulConst(const_val=gamma), [inner], name)


@TABLE.imports("PRelu")
def prelu(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a PReLU; the slope is a constant or a value that broadcasts to the operand."""
    return build.build(top.PRelu(), [build.value(node.inputs[0]), aligned(node, build, 1)], node.outputs[0])


@TABLE.imports("Pow")
def power(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import a power with a constant exponent, a constant base, or neither. With an integer base and another exponent
    type, the result is cast to the integer type.
    """
    name, kind = node.outputs[0], build.elem_type(node.inputs[0])
    cut = is_integer(kind) and not is_integer(build.elem_type(node.inputs[1]))
    inner = f"{name}_power" if cut else name
    scalar = scalar_operand(node, build)
    if scalar is not None and build.shape(name) == build.shape(node.inputs[1 - scalar[0]]):
        op = top.Pow(exponent=scalar[1]) if scalar[0] else top.Pow2(const_val=scalar[1])
        result = build.build(op, [build.value(node.inputs[1 - scalar[0]])], inner)
    else:
        result = build.build(top.Pow3(), [aligned(node, build, 0), aligned(node, build, 1)], inner)
    return build.build(top.Cast(to=kind.upper()), [result], name) if cut else result


@TABLE.imports("Gelu")
def gelu(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a GELU, exact or approximated by a tanh."""
    op = top.GELU(approx_mode="tanh" if node.attributes.get("approximate") == "tanh" else "normal")
    return build.build(op, [build.value(node.inputs[0])], node.outputs[0])


@TABLE.imports("Swish")
def swish(node: ForeignNode, build: ImportBuilder) -> Value:
    """``x * sigmoid(alpha * x)``."""
    x, name, alpha = build.value(node.inputs[0]), node.outputs[0], node.attributes.get("alpha", 1.0)
    if alpha == 1.0:
        return build.build(top.SiLU(), [x], name)
    share = build.build(top.MulConst(const_val=alpha), [x], f"{name}_scaled")
    return build.build(top.Mul(), [x, build.build(top.Sigmoid(), [share], f"{name}_sigmoid")], name)
