"""Requantization and dequantization (RQDQ)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Cases, Coded, Encoding, Ignored, Present, Signed, When
from tpuc_ops.quant.arithmetic import Rounding, requantize, round_to_int, saturate

from tpuc_bm1684x.isa.codecs import Tensor, extents, operation, plain_address, rounding
from tpuc_bm1684x.isa.command import ComputeInstruction
from tpuc_bm1684x.isa.elementwise import flush
from tpuc_bm1684x.isa.types import (
    Array,
    DType,
    Layout,
    Operand,
    Shape4,
    bits_float,
    dtype_of,
    float_bits,
)

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


class RequantizeOp(enum.IntEnum):
    """Sub-opcodes of RQDQ."""

    FLOAT_REQUANTIZE = 0
    """rq0: round(float(x) * scale + offset)"""
    REQUANTIZE = 1
    """rq1: round(x * multiplier shifted by shift) + zero_point"""
    RQ2 = 2
    FLOAT_DEQUANTIZE = 3
    """dq0: (x - zero_point) * scale"""
    DEQUANTIZE = 4
    """dq1: round((x - zero_point) * multiplier shifted by shift)"""
    DQ2 = 5
    FLOAT_REQUANTISE, REQUANTISE, FLOAT_DEQUANTISE, DEQUANTISE = 0, 1, 3, 4
    """Names until 0.3, which timing tools of others still state."""


Op = RequantizeOp


def _float(attribute: str, field: str) -> Coded:
    return Coded(attribute, field, float_bits, bits_float)


_DEQUANTIZE = Encoding(
    When(
        lambda command: command.target.has_compact_records,
        Signed("multiplier", "opd1_addr", 32),
        Signed("shift", "opd2_addr", 8),
        Signed("zero_point", "opd2_addr", 16, at=16),
        otherwise=[
            Signed("zero_point", "opd1_addr", 16),
            Signed("shift", "opd1_addr", 16, at=16, significant=8),
            Signed("multiplier", "opd2_addr", 32),
        ],
    )
)
_IMMEDIATES = {
    Op.FLOAT_REQUANTIZE: Encoding(_float("scale", "opd1_addr"), _float("offset", "opd2_addr")),
    Op.FLOAT_DEQUANTIZE: Encoding(
        When(
            lambda command: command.target.has_compact_records,
            Signed("zero_point", "opd2_addr", 32),
            _float("scale", "opd1_addr"),
            otherwise=[Signed("zero_point", "opd1_addr", 32), _float("scale", "opd2_addr")],
        )
    ),
    Op.REQUANTIZE: Encoding(
        Signed("multiplier", "opd1_addr", 32),
        Signed("shift", "opd2_addr", 8),
        Signed("zero_point", "opd2_addr", 16, at=16),
    ),
}
"""Codecs of the parameters shared by all channels, used when there is no table."""
_RECORD_WORDS = {Op.FLOAT_REQUANTIZE: 2, Op.REQUANTIZE: 3, Op.FLOAT_DEQUANTIZE: 2, Op.DEQUANTIZE: 3}


@dataclass(frozen=True, kw_only=True)
class Requantize(ComputeInstruction):
    """Requantize or dequantize `input`; both sides are aligned (RQDQ).

    Parameters are shared by all channels, or come from `table`, the address of a per-channel table of 64-byte records:
    {multiplier, shift, zero_point} int32, {scale, offset} f32, {zero_point int32, scale f32}, or {zero_point,
    multiplier, shift} int32. Compact records have two words without gaps, those of REQUANTIZE {multiplier, shift in 8
    bits and zero_point in the upper 16}. `shift` is positive to the left. `rounding` applies to the result,
    `source_rounding` to the integer-to-float conversion of FLOAT_REQUANTIZE.
    """

    table_name = "sRQDQ"
    stem = "quant"
    encoding = Encoding(
        operation(RequantizeOp),
        extents("shape", "res0"),
        Tensor("result", "res0", sign="opd2_sign"),
        Tensor("input", "opd0"),
        When(
            lambda command: command.operation is Op.FLOAT_REQUANTIZE,
            rounding("source_rounding", "opd2_n_str", width=3),
            rounding("rounding", "opd2_n_str", at=3, width=3),
            otherwise=[rounding("rounding", "opd2_n_str")],
        ),
        Present(
            "opd1_const",
            ["table"],
            plain_address("table", "opd1"),
            value=0,
            absent=1,
            otherwise=[Cases("operation", _IMMEDIATES, others=_DEQUANTIZE)],
        ),
        Ignored("opd1_addr", "opd2_addr", "opd2_sign", "opd2_n_str"),
    )

    operation: RequantizeOp
    shape: Shape4
    result: Operand
    input: Operand
    table: int | None = None
    multiplier: int = 0
    shift: int = 0
    zero_point: int = 0
    scale: float = 0.0
    offset: float = 0.0
    rounding: Rounding = Rounding.HALF_TO_EVEN
    source_rounding: Rounding = Rounding.HALF_TO_EVEN

    def check(self) -> None:
        super().check()
        if self.operation in (Op.RQ2, Op.DQ2):
            raise IllegalCommand(f"{self.mnemonic()}: the simulator does not support this operation; use another")
        has_table = self.table is not None and self.operation not in (Op.REQUANTIZE, Op.FLOAT_REQUANTIZE)
        if has_table and self.target.has_compact_records:
            raise IllegalCommand(f"{self.mnemonic()}: the simulator knows no table of this operation; use an immediate")
        source, result = self.input.dtype, self.result.dtype
        if DType.UINT32 in (source, result):
            raise IllegalCommand(
                f"{self.mnemonic()}: {source} to {result}: it treats 32-bit integers as signed; use int32"
            )
        allowed = {
            Op.FLOAT_REQUANTIZE: source.bytes > 1 and not source.is_float and result.bytes < 4 and not result.is_float,
            Op.REQUANTIZE: source.bytes > 1 and not source.is_float and result.bytes < 4 and not result.is_float,
            Op.FLOAT_DEQUANTIZE: source.bytes < 4 and not source.is_float and result is DType.F32,
            Op.DEQUANTIZE: source.bytes < 4 and not source.is_float and result.bytes > 1 and not result.is_float,
        }
        if not allowed[self.operation]:
            raise IllegalCommand(f"{self.mnemonic()}: {source} to {result} is not possible; cast with AR")

    def reads(self) -> Sequence[Region]:
        regions = [self.input.region(self.shape, self.target)]
        if self.table is not None:
            regions.append(self._records().region((1, self.shape[1], 1, self._words), self.target))
        return regions

    @property
    def _words(self) -> int:
        return 2 if self.target.has_compact_records else _RECORD_WORDS.get(self.operation, 3)

    def _records(self) -> Operand:
        assert self.table is not None
        layout = Layout.COMPACT if self.target.has_compact_records else Layout.ALIGNED
        return Operand(self.table, DType.INT32, layout)

    def _record(self) -> Sequence[int]:
        """The shared parameters as the words of a table record."""
        match self.operation:
            case Op.FLOAT_REQUANTIZE:
                return float_bits(self.scale), float_bits(self.offset)
            case Op.FLOAT_DEQUANTIZE:
                return self.zero_point, float_bits(self.scale)
            case Op.REQUANTIZE:
                return self.multiplier, self.shift, self.zero_point
            case _:
                return self.zero_point, self.multiplier, self.shift

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self.shape, self.target)]

    def execute(self, machine: Machine) -> None:
        x = machine.load(self.input, self.shape)
        if self.table is None:
            raw: Sequence[Array] = [np.array(word & 0xFFFFFFFF, np.uint32).view(np.int32) for word in self._record()]
        else:
            records = machine.load(self._records(), (1, self.shape[1], 1, self._words))
            raw = [np.ascontiguousarray(records[..., word : word + 1]) for word in range(self._words)]
            if self.target.has_compact_records and self.operation is Op.REQUANTIZE:
                raw = [raw[0], raw[1].astype(np.int8), raw[1] >> 16]
        machine.store(self.result, self.shape, self._compute(x, raw))

    @np.errstate(all="ignore")
    def _compute(self, x: Array, raw: Sequence[Array]) -> Array:
        result = self.result.dtype.numpy
        match self.operation:
            case Op.REQUANTIZE:
                multiplier, shift, zero_point = (word.astype(np.int64) for word in raw)
                is_signed = self.result.dtype.signed or self.target.has_compact_records
                zero_point = zero_point if is_signed else zero_point & 0xFFFF
                return requantize(x, multiplier, -shift, zero_point, self.rounding, result)
            case Op.DEQUANTIZE:
                zero_point, multiplier, shift = (word.astype(np.int64) for word in raw)
                return requantize(x - self._source_point(zero_point), multiplier, -shift, 0, self.rounding, result)
            case Op.FLOAT_REQUANTIZE:
                scale, offset = (word.view(np.float32) for word in raw)
                value = flush(_to_float(x, self.source_rounding) * flush(scale)) + flush(offset)
                return saturate(round_to_int(value, self.rounding), result)
            case _:
                zero_point, scale = self._source_point(raw[0].astype(np.int64)), raw[1].view(np.float32)
                return flush((x - zero_point).astype(np.float32) * flush(scale))

    def _source_point(self, zero_point: Array) -> Array:
        """The input's zero point. For an unsigned input it is an unsigned 16-bit number, so a negative one becomes
        large.
        """
        return zero_point if self.input.dtype.signed else zero_point & 0xFFFF


def _to_float(x: Array, rounding: Rounding) -> Array:
    del rounding  # only integers above 2^24 round, and the model rounds them half to even
    return x.astype(np.float32)


__all__ = ["Requantize", "RequantizeOp", "dtype_of"]
