"""A small program made by hand, for any chip of the family: bytes are negated."""

from __future__ import annotations

from tpuc.api import Command
from tpuc_cv18.container import CviModel, Program, Routine, Section, SectionKind, Tensor, TensorType, TpuRoutine
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, Operand, Scalar, Target, TensorCopy, encode_cmdbuf, gmem

SHAPE = (1, 8, 2, 16)


def file_of(commands: list[Command], target: Target) -> CviModel:
    """X int8 behind base register 3, y behind 4."""
    x, y = Tensor("x", TensorType.INT8, SHAPE, 3, scale=2.0), Tensor("y", TensorType.INT8, SHAPE, 4, scale=0.5)
    sections = (
        Section(SectionKind.WEIGHT, "weight", bytes(range(256)) * 16),
        Section(SectionKind.CMDBUF, "code", encode_cmdbuf(commands, target)),
    )
    program = Program(("x",), ("y",), (x, y), (Routine(TpuRoutine("code"), ("x",), ("y",)),))
    return CviModel(target, "net", (program,), sections)


def negate() -> list[TensorCopy | Arithmetic]:
    """The instructions, before they know their chip."""
    x, y = Operand(0, DType.INT8), Operand(0x100, DType.INT8)
    return [
        TensorCopy(source=gmem(3), destination=0, shape=SHAPE, dtype=DType.INT8),
        Arithmetic(operation=ArithmeticOp.MUL, shape=SHAPE, result=y, left=x, right=Scalar.of(-1, DType.INT8)),
        TensorCopy(source=0x100, destination=gmem(4), shape=SHAPE, dtype=DType.INT8),
    ]
