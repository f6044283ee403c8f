"""Attribute types beyond those in `tpuc.api`, and the operand lists that the text of an op prints."""

from __future__ import annotations

import dataclasses
from typing import Annotated, get_args

from tpuc.api import RoundMode
from tpuc.api.text import CodeKind, IntKind, SingleKind, Slots, StringKind

# An enumeration as `RoundMode` is one, under another mnemonic.
PoolMode = Annotated[str, dataclasses.replace(get_args(RoundMode)[1], mnemonic="pool_mode")]
ActiveMode = Annotated[str, dataclasses.replace(get_args(RoundMode)[1], mnemonic="active_mode")]
PadMode = Annotated[str, dataclasses.replace(get_args(RoundMode)[1], mnemonic="Pad_Mode")]

# Written with another type by the first versions of TPU-MLIR.
FormerI64 = Annotated[int, IntKind("si32", former=("i64",))]

# An element type as ONNX names it; TPU-MLIR's own names are read, too.
OnnxType = Annotated[str, StringKind((("F32", "FLOAT"), ("F16", "FLOAT16"), ("BF16", "BFLOAT16")))]

# A choice that MLIR writes as its number.
GridMode = Annotated[str, CodeKind("i64", ("bilinear", "nearest", "bicubic"))]
GridPadding = Annotated[str, CodeKind("i64", ("zeros", "border", "reflection"))]
FloatFlag = Annotated[bool, CodeKind("f64", (False, True))]
SingleI64 = Annotated[int, SingleKind(IntKind("i64"))]
_REDUCTIONS = ("none", "add", "sub", "max", "min", "mul")
Reduction = Annotated[str, CodeKind("i64", _REDUCTIONS)]
Reduction32 = Annotated[str, CodeKind("i32", _REDUCTIONS)]


def listed(operands: int, kept: int, results: int = 0) -> Slots:
    """Return the minimum numbers of operands and results in the text of an op; absent ones are printed as `top.None`.

    In a module, the op always has the first `kept` operands, even if they are absent.
    """
    return Slots(operands, kept, "top.None", results)
