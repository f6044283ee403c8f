"""The third operand of convolutions: a bias, or a block of requantisation parameters per channel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from tpuc.api import IllegalCommand

from tpuc_cv183x.isa.command import FieldReader, check_multiple, check_near
from tpuc_cv183x.isa.finish import (
    ChannelBlock,
    PartialSum,
    bias_step,
    finish_float,
    load_bias,
    requantise,
    round_shift,
    wrap,
)
from tpuc_cv183x.isa.types import NEAR_MASK, Array, DType, Layout, Operand

if TYPE_CHECKING:
    from tpuc_cv183x.machine import Machine

INPUT_STRIDES = ("opd0_n_str", "opd0_c_str", "opd0_h_str", "opd0_w_str", "opd0_b_str")
KERNEL_STRIDES = ("opd1_n_str", "opd1_c_str", "opd1_h_str", "opd1_w_str", "opd1_b_str")
THIRD_STRIDES = ("opd2_n_str", "opd2_c_str", "opd2_h_str", "opd2_w_str")
THIRD = ("opd2", "opt_opd2", "short_opd2")
"""Prefixes of everything about operand 2."""


class Finishes(Protocol):
    """What `finish_channels` needs to know of a convolution."""

    @property
    def result(self) -> Operand: ...
    @property
    def block(self) -> ChannelBlock | None: ...
    @property
    def bias(self) -> int | None: ...
    @property
    def bias_signed(self) -> bool: ...
    @property
    def shift(self) -> int: ...
    @property
    def relu(self) -> bool: ...


def third_fields(
    block: ChannelBlock | None, bias: int | None, bias_signed: bool, channels: int, dtype: DType
) -> dict[str, int]:
    """Raw fields of a block, a bias, or neither."""
    if block is None and bias is None:
        return {"tsk_opd_num": 2}
    fields = {"tsk_opd_num": 3, "short_opd2_str": int(Layout.CHANNEL)}
    fields |= {"opd2_n": 1, "opd2_c": channels, "opd2_h": 1, "opd2_w": 1}
    if block is None:
        assert bias is not None
        step = bias_step(channels, dtype)
        return fields | {"opd2_addr": bias & NEAR_MASK, "opt_opd2_sign": int(bias_signed), "opd2_b_str": step}
    fields |= {
        "opd2_addr": block.address & NEAR_MASK,
        "opt_opd2_int8": 1,
        "opt_opd2_sign": int(block.has_bias),
        "opd2_b_str": 0,
    }
    return fields | {"opt_chl_quan": 1, "opt_right_shift": 0, "tsk_opd_num": 3 if block.has_bias else 2}


def read_third(fields: FieldReader) -> tuple[ChannelBlock | None, int | None, bool]:
    """Block, bias and the bias's sign flag of raw fields."""
    with_bias, address = fields["tsk_opd_num"] == 3, fields.near("opd2")
    if fields["opt_chl_quan"]:
        return ChannelBlock(address, with_bias), None, True
    return (None, address, bool(fields["opt_opd2_sign"])) if with_bias else (None, None, True)


def check_third(
    mnemonic: str, result: Operand, block: ChannelBlock | None, bias: int | None, partial: PartialSum
) -> None:
    """Refuse a third operand that the operation cannot use."""
    if block is not None and bias is not None:
        raise IllegalCommand(f"{mnemonic}: both a block and a bias; put the bias into the block")
    if partial.writes and (block is not None or bias is not None):
        raise IllegalCommand(
            f"{mnemonic}: partial sums take neither bias nor requantisation; give them to the last step"
        )
    if block is not None:
        check_multiple(mnemonic, "block address", block.address, 16)
        check_near(mnemonic, "the block", block.address, result)
    if bias is not None:
        check_near(mnemonic, "the bias", bias, result)


def check_result(
    mnemonic: str, result: Operand, relu: bool, partial: PartialSum, sources: Iterable[DType], bias_signed: bool = False
) -> None:
    """Refuse signs and types that do not go together (tiu.md, "Signedness rules")."""
    sources = tuple(sources)
    if len({dtype.is_float for dtype in (*sources, result.dtype)}) > 1:
        raise IllegalCommand(f"{mnemonic}: bf16 and integers together; convert with a DMA copy")
    if partial.writes and relu:
        raise IllegalCommand(f"{mnemonic}: partial sums cannot pass a relu; give it to the last step")
    if relu and result.dtype.planes > 1:
        raise IllegalCommand(f"{mnemonic}: relu needs an 8-bit result; drop it or the result's second plane")
    signed = bias_signed or any(dtype.signed for dtype in sources)
    if not signed and (relu or result.dtype.signed):
        raise IllegalCommand(f"{mnemonic}: unsigned operands give an unsigned result without relu; use uint8")
    if signed and not result.dtype.signed and not relu:
        raise IllegalCommand(f"{mnemonic}: an unsigned result of signed operands needs relu; set it, or use int8")


def finish_channels(machine: Machine, sums: Array, conv: Finishes, channels: int) -> Array:
    """The stored result of the sums `[n, channels, h, w]`."""
    dtype = conv.result.dtype
    bias: Array | None = None
    if conv.bias is not None:
        bias = load_bias(machine, conv.bias, channels, dtype, conv.bias_signed)
    if dtype.is_float:
        return finish_float(sums, bias, conv.relu)
    if conv.block is not None:
        offset, multiplier, shift = conv.block.load(machine, channels)
        return requantise(wrap(sums + offset), multiplier, shift, conv.relu, dtype)
    total = sums.astype(np.int64)
    if bias is not None:
        total = (total + bias).astype(sums.dtype)  # wraps at 32 bits
    return round_shift(total, conv.shift, conv.relu, dtype)
