"""Compare and select (CMP)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import Region
from tpuc.api.encoding import Encoding, Ignored, When

from tpuc_bm1684x.isa.codecs import Tensor, extents, operation
from tpuc_bm1684x.isa.command import ComputeInstruction
from tpuc_bm1684x.isa.elementwise import (
    SELECT_EQUAL,
    SELECT_GREATER,
    SELECT_LESS,
    compare,
    maximum,
    minimum,
)
from tpuc_bm1684x.isa.types import Operand, Shape4, Source, regions_of

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


def _compared_prec(select: CompareSelect) -> int:
    return select.left.dtype.prec


def _chosen_prec(select: CompareSelect) -> int:
    return select.when_true.dtype.prec


def _sign(select: CompareSelect) -> int:
    return select.left.dtype.signed


@dataclass(frozen=True, kw_only=True)
class CompareSelect(ComputeInstruction):
    """`left > right ? when_true : when_false`, also with == and < (CMP).

    Operands are tensors or immediates. `left` and `right` share one type; `when_true`, `when_false` and the result
    share another. The AND_SELECT forms write the larger (smaller) operand to `result` and the selection to `second`.
    """

    table_name = "sCMP"
    stem = "cmp"
    encoding = Encoding(
        operation(CompareOp),
        extents("shape", "res0"),
        Tensor("left", "opd0", layout=None, immediate=True),
        Tensor("right", "opd1", prec=_compared_prec, sign=_sign, layout=None, immediate=True),
        Tensor("when_true", "opd2", sign=_sign, immediate=True),
        Tensor("when_false", "opd3", prec=_chosen_prec, sign=_sign, immediate=True),
        When(
            lambda select: select.operation in _BOTH,
            Tensor("result", "res0", prec=_compared_prec, sign=_sign),
            Tensor("second", "res1", prec=_chosen_prec, sign=_sign),
            otherwise=[Tensor("result", "res0", prec=_chosen_prec, sign=_sign)],
        ),
        Ignored("res1_addr", "opd0_sign"),
    )

    operation: CompareOp
    shape: Shape4
    result: Operand
    left: Source
    right: Source
    when_true: Source
    when_false: Source
    second: Operand | None = None

    def reads(self) -> Sequence[Region]:
        return regions_of(
            self.target, *((source, self.shape) for source in (self.left, self.right, self.when_true, self.when_false))
        )

    def writes(self) -> Sequence[Region]:
        return regions_of(self.target, (self.result, self.shape), (self.second, self.shape))

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
