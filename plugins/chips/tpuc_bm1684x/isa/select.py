"""Compare and select (CMP)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from tpuc.api import Region

from tpuc_bm1684x.isa.command import ComputeInstruction, FieldReader, layout_fields, shape_fields, source_fields
from tpuc_bm1684x.isa.elementwise import (
    SELECT_EQUAL,
    SELECT_GREATER,
    SELECT_LESS,
    compare,
    maximum,
    minimum,
)
from tpuc_bm1684x.isa.types import Layout, Operand, Shape4, Source

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


class CompareOp(enum.IntEnum):
    """Sub-opcodes of CMP."""

    MAX_AND_SELECT = 22
    SELECT_GREATER = 23
    SELECT_EQUAL = 24
    MIN_AND_SELECT = 25
    SELECT_LESS = 26


_BOTH = (CompareOp.MAX_AND_SELECT, CompareOp.MIN_AND_SELECT)
_COMPARISON = {
    CompareOp.MAX_AND_SELECT: SELECT_GREATER,
    CompareOp.SELECT_GREATER: SELECT_GREATER,
    CompareOp.SELECT_EQUAL: SELECT_EQUAL,
    CompareOp.MIN_AND_SELECT: SELECT_LESS,
    CompareOp.SELECT_LESS: SELECT_LESS,
}


@dataclass(frozen=True, kw_only=True)
class CompareSelect(ComputeInstruction):
    """`left > right ? when_true : when_false`, also with == and < (CMP).

    Operands are aligned tensors or immediates; `left` and `right` have one type, `when_true`, `when_false` and the
    result another one. The AND_SELECT forms write the greater (smaller) operand to `result`, the selection to `second`.
    """

    table_name = "sCMP"
    harmless = frozenset({"res1_addr", "opd0_sign"})

    operation: CompareOp
    shape: Shape4
    result: Operand
    left: Source
    right: Source
    when_true: Source
    when_false: Source
    second: Operand | None = None

    def mnemonic(self) -> str:
        return f"cmp.{self.operation.name.lower()}"

    def fields(self) -> dict[str, int]:
        fields = shape_fields("res0", self.shape) | {
            "tsk_eu_typ": int(self.operation),
            "opd0_prec": self.left.dtype.prec,
            "opd2_prec": self.when_true.dtype.prec,
            "opd0_sign": int(self.left.dtype.signed),
            "res0_addr": self.result.address,
            "res1_addr": 0 if self.second is None else self.second.address,
        }
        for name, source in (("opd0", self.left), ("opd1", self.right)):
            if isinstance(source, Operand):
                fields |= {key: value for key, value in layout_fields(name, source).items() if key.endswith("_str")}
        sources = (self.left, self.right, self.when_true, self.when_false)
        for index, source in enumerate(sources):
            fields |= source_fields(f"opd{index}", source)
        return fields

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        operation = CompareOp(fields["tsk_eu_typ"])
        prec, sign, other = fields["opd0_prec"], fields["opd0_sign"], fields["opd2_prec"]
        both = operation in _BOTH
        return cls(
            operation=operation,
            shape=fields.shape("res0"),
            result=fields.plain("res0", prec if both else other, sign),
            left=fields.source("opd0", prec, sign),
            right=fields.source("opd1", prec, sign),
            when_true=fields.source("opd2", other, sign, Layout.ALIGNED),
            when_false=fields.source("opd3", other, sign, Layout.ALIGNED),
            second=fields.plain("res1", other, sign) if both else None,
        )

    def reads(self) -> Sequence[Region]:
        sources = (self.left, self.right, self.when_true, self.when_false)
        return [source.region(self.shape) for source in sources if isinstance(source, Operand)]

    def writes(self) -> Sequence[Region]:
        results = [self.result] if self.second is None else [self.result, self.second]
        return [result.region(self.shape) for result in results]

    def execute(self, machine: Machine) -> None:
        left, right = machine.fetch(self.left, self.shape), machine.fetch(self.right, self.shape)
        holds = compare(_COMPARISON[self.operation], left, right)
        yes, no = machine.fetch(self.when_true, self.shape), machine.fetch(self.when_false, self.shape)
        chosen = np.where(holds, yes, no)
        if self.second is None:
            machine.store(self.result, self.shape, chosen)
            return
        extreme = maximum(left, right) if self.operation is CompareOp.MAX_AND_SELECT else minimum(left, right)
        machine.store(self.result, self.shape, extreme.copy())
        machine.store(self.second, self.shape, chosen)
