"""Requantisation and dequantisation (RQDQ)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc_ops.quant.arithmetic import Rounding, requantise, round_to_int, saturate

from tpuc_bm1684x.isa.command import ComputeInstruction, FieldReader, shape_fields
from tpuc_bm1684x.isa.elementwise import flush
from tpuc_bm1684x.isa.types import (
    Array,
    DType,
    Operand,
    Shape4,
    bits_float,
    dtype_of,
    float_bits,
    rounding_code,
    rounding_of,
    signed,
)

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


class RequantiseOp(enum.IntEnum):
    """Sub-opcodes of RQDQ."""

    FLOAT_REQUANTISE = 0
    """rq0: round(float(x) * scale + offset)"""
    REQUANTISE = 1
    """rq1: round(x * multiplier shifted by shift) + zero_point"""
    RQ2 = 2
    FLOAT_DEQUANTISE = 3
    """dq0: (x - zero_point) * scale"""
    DEQUANTISE = 4
    """dq1: round((x - zero_point) * multiplier shifted by shift)"""
    DQ2 = 5


Op = RequantiseOp
_RECORD_WORDS = {Op.FLOAT_REQUANTISE: 2, Op.REQUANTISE: 3, Op.FLOAT_DEQUANTISE: 2, Op.DEQUANTISE: 3}


@dataclass(frozen=True, kw_only=True)
class Requantise(ComputeInstruction):
    """`result = requantised input`; both aligned (RQDQ).

    Either one set of parameters for all channels, or `table`: the address of a per-channel table of 64-byte records
    {multiplier, shift, zero_point} int32, {scale, offset} f32, {zero_point int32, scale f32}, or {zero_point,
    multiplier, shift} int32. `shift` is positive to the left. `rounding` is that of the result; `source_rounding` that
    of integer to float in FLOAT_REQUANTISE.
    """

    table_name = "sRQDQ"
    harmless = frozenset({"opd1_addr", "opd2_addr", "opd2_sign", "opd2_n_str"})

    operation: RequantiseOp
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

    def mnemonic(self) -> str:
        return f"quant.{self.operation.name.lower()}"

    def fields(self) -> dict[str, int]:
        fields = shape_fields("res0", self.shape) | {
            "tsk_eu_typ": int(self.operation),
            "res0_addr": self.result.address,
            "res0_prec": self.result.dtype.prec,
            "opd2_sign": int(self.result.dtype.signed),
            "opd0_addr": self.input.address,
            "opd0_prec": self.input.dtype.prec,
            "opd0_sign": int(self.input.dtype.signed),
            "opd2_n_str": rounding_code(self.rounding),
        }
        if self.operation is Op.FLOAT_REQUANTISE:
            fields["opd2_n_str"] = rounding_code(self.rounding) << 3 | rounding_code(self.source_rounding)
        if self.table is not None:
            return fields | {"opd1_addr": self.table}
        first, second = self._immediates()
        return fields | {"opd1_const": 1, "opd1_addr": first, "opd2_addr": second}

    def _immediates(self) -> tuple[int, int]:
        shift, zero_point = self._narrow("shift", self.shift), self._narrow("zero_point", self.zero_point)
        match self.operation:
            case Op.FLOAT_REQUANTISE:
                return float_bits(self.scale), float_bits(self.offset)
            case Op.FLOAT_DEQUANTISE:
                return self.zero_point & 0xFFFFFFFF, float_bits(self.scale)
            case Op.REQUANTISE:
                return self.multiplier & 0xFFFFFFFF, (shift & 0xFF) | (zero_point & 0xFFFF) << 16
            case _:
                return (zero_point & 0xFFFF) | (shift & 0xFFFF) << 16, self.multiplier & 0xFFFFFFFF

    def _narrow(self, name: str, value: int) -> int:
        limit = 128 if name == "shift" else 32768
        if not -limit <= value < limit and self.operation in (Op.REQUANTISE, Op.DEQUANTISE):
            raise IllegalCommand(
                f"{self.mnemonic()}: {name} {value} does not fit; use {-limit}..{limit - 1} or a table"
            )
        return value

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        operation = RequantiseOp(fields["tsk_eu_typ"])
        rounding, source = fields["opd2_n_str"] & 7, 0
        if operation is Op.FLOAT_REQUANTISE:
            rounding, source = fields["opd2_n_str"] >> 3, rounding
        one, two = fields["opd1_addr"], fields["opd2_addr"]
        multiplier = shift = zero_point = 0
        scale = offset = 0.0
        if fields["opd1_const"]:
            match operation:
                case Op.FLOAT_REQUANTISE:
                    scale, offset = bits_float(one), bits_float(two)
                case Op.FLOAT_DEQUANTISE:
                    zero_point, scale = signed(one, 32), bits_float(two)
                case Op.REQUANTISE:
                    multiplier, shift, zero_point = signed(one, 32), signed(two, 8), signed(two >> 16, 16)
                case _:
                    zero_point, shift, multiplier = signed(one, 16), signed(one >> 16, 8), signed(two, 32)
        return cls(
            operation=operation,
            shape=fields.shape("res0"),
            result=fields.plain("res0", fields["res0_prec"], fields["opd2_sign"]),
            input=fields.plain("opd0", fields["opd0_prec"], fields["opd0_sign"]),
            table=None if fields["opd1_const"] else one,
            multiplier=multiplier,
            shift=shift,
            zero_point=zero_point,
            scale=scale,
            offset=offset,
            rounding=rounding_of(rounding),
            source_rounding=rounding_of(source),
        )

    def check(self) -> None:
        super().check()
        if self.operation in (Op.RQ2, Op.DQ2):
            raise IllegalCommand(f"{self.mnemonic()}: the simulator does not know this operation; use another")
        source, result = self.input.dtype, self.result.dtype
        if DType.UINT32 in (source, result):
            raise IllegalCommand(
                f"{self.mnemonic()}: {source} to {result}: it takes 32-bit integers as signed; use int32"
            )
        allowed = {
            Op.FLOAT_REQUANTISE: source.bytes > 1 and not source.is_float and result.bytes < 4 and not result.is_float,
            Op.REQUANTISE: source.bytes > 1 and not source.is_float and result.bytes < 4 and not result.is_float,
            Op.FLOAT_DEQUANTISE: source.bytes < 4 and not source.is_float and result is DType.F32,
            Op.DEQUANTISE: source.bytes < 4 and not source.is_float and result.bytes > 1 and not result.is_float,
        }
        if not allowed[self.operation]:
            raise IllegalCommand(f"{self.mnemonic()}: {source} to {result} is not possible; cast with AR")

    def reads(self) -> Sequence[Region]:
        regions = [self.input.region(self.shape)]
        if self.table is not None:
            regions.append(self._records().region((1, self.shape[1], 1, self._words)))
        return regions

    @property
    def _words(self) -> int:
        return _RECORD_WORDS.get(self.operation, 3)

    def _records(self) -> Operand:
        assert self.table is not None
        return Operand(self.table, DType.INT32)

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self.shape)]

    def execute(self, machine: Machine) -> None:
        x = machine.load(self.input, self.shape)
        if self.table is None:
            first, second = self._immediates()
            raw: Sequence[Array] = [np.array(word, np.uint32).view(np.int32) for word in (first, second)]
            if self.operation in (Op.REQUANTISE, Op.DEQUANTISE):
                numbers = (self.multiplier, self.shift, self.zero_point)
                raw = [np.array(value, np.int64) for value in numbers]
                if self.operation is Op.DEQUANTISE:
                    raw = [raw[2], raw[0], raw[1]]
        else:
            records = machine.load(self._records(), (1, self.shape[1], 1, self._words))
            raw = [np.ascontiguousarray(records[..., word : word + 1]) for word in range(self._words)]
        machine.store(self.result, self.shape, self._compute(x, raw))

    @np.errstate(all="ignore")
    def _compute(self, x: Array, raw: Sequence[Array]) -> Array:
        result = self.result.dtype.numpy
        match self.operation:
            case Op.REQUANTISE:
                multiplier, shift, zero_point = (word.astype(np.int64) for word in raw)
                zero_point = zero_point if self.result.dtype.signed else zero_point & 0xFFFF
                return requantise(x, multiplier, -shift, zero_point, self.rounding, result)
            case Op.DEQUANTISE:
                zero_point, multiplier, shift = (word.astype(np.int64) for word in raw)
                return requantise(x - self._source_point(zero_point), multiplier, -shift, 0, self.rounding, result)
            case Op.FLOAT_REQUANTISE:
                scale, offset = (word.view(np.float32) for word in raw)
                value = flush(_to_float(x, self.source_rounding) * flush(scale)) + flush(offset)
                return saturate(round_to_int(value, self.rounding), result)
            case _:
                zero_point, scale = self._source_point(raw[0].astype(np.int64)), raw[1].view(np.float32)
                return flush((x - zero_point).astype(np.float32) * flush(scale))

    def _source_point(self, zero_point: Array) -> Array:
        """The zero point of an unsigned input is an unsigned 16-bit number, so a negative one comes out large."""
        return zero_point if self.input.dtype.signed else zero_point & 0xFFFF


def _to_float(x: Array, rounding: Rounding) -> Array:
    del rounding  # only integers above 2^24 round, and the model rounds them half to even
    return x.astype(np.float32)


__all__ = ["Requantise", "RequantiseOp", "dtype_of"]
