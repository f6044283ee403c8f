"""The third operand of convolutions: a bias, or per-channel requantization parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from tpuc.api import IllegalCommand
from tpuc.api.encoding import Constant, Draft, Encoding, FieldCodec, Fields, Ignored, Number, When

from tpuc_cv18.isa.codecs import near, strides_of
from tpuc_cv18.isa.command import check_multiple, check_near
from tpuc_cv18.isa.finish import (
    ChannelBlock,
    PartialSum,
    bias_step,
    finish_float,
    load_bias,
    requantize,
    round_shift,
    wrap,
)
from tpuc_cv18.isa.target import Target
from tpuc_cv18.isa.types import NEAR_MASK, Array, DType, Layout, Operand, Shape4

if TYPE_CHECKING:
    from tpuc_cv18.machine import Machine

INPUT_STRIDES, KERNEL_STRIDES, THIRD_STRIDES = strides_of("opd0"), strides_of("opd1"), strides_of("opd2")[:4]
THIRD = ("opd2*", "opt_opd2*", "short_opd2*")
"""Field patterns of operand 2."""


class Finishes(Protocol):
    """The attributes of a convolution that `finish_channels` needs."""

    @property
    def target(self) -> Target: ...
    @property
    def result(self) -> Operand: ...
    @property
    def result_shape(self) -> Shape4: ...
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


class _ChannelParameters(FieldCodec):
    """Codec of a channel block, a bias with its sign, or neither."""

    def write(self, instruction: Finishes, fields: dict[str, int]) -> None:
        block, bias, channels = instruction.block, instruction.bias, instruction.result_shape[1]
        if block is None and bias is None:
            fields["tsk_opd_num"] = 2
            return
        fields |= {"tsk_opd_num": 3, "short_opd2_str": int(Layout.CHANNEL)}
        fields |= {"opd2_n": 1, "opd2_c": channels, "opd2_h": 1, "opd2_w": 1}
        if bias is not None and block is None:
            fields |= {"opd2_addr": bias & NEAR_MASK, "opt_opd2_sign": int(instruction.bias_signed)}
            fields["opd2_b_str"] = bias_step(channels, instruction.result.dtype, instruction.target)
        if block is not None:
            fields |= {"opd2_addr": block.address & NEAR_MASK, "opt_opd2_int8": 1, "opd2_b_str": 0, "opt_chl_quan": 1}
            fields |= {"opt_opd2_sign": int(block.has_bias), "tsk_opd_num": 3 if block.has_bias else 2}

    def read(self, draft: Draft, fields: Fields) -> None:
        with_bias, address = fields["tsk_opd_num"] == 3, near(fields, "opd2_addr")
        if fields["opt_chl_quan"]:
            draft.__dict__["block"] = ChannelBlock(address, with_bias)
        elif with_bias:
            draft.__dict__.update(bias=address, bias_signed=bool(fields["opt_opd2_sign"]))

    def ignores(self, instruction: Finishes, name: str) -> bool:
        absent = instruction.block is None and instruction.bias is None
        return absent and name.startswith(("opd2", "opt_opd2", "short_opd2"))


THIRD_OPERAND = Encoding(
    _ChannelParameters(),
    When(
        lambda conv: conv.block is None,
        Number("shift", "opt_right_shift"),
        otherwise=[Constant(opt_right_shift=0), Ignored("opt_right_shift")],
    ),
)
"""Codec of the third operand and the shift."""


def check_third(
    mnemonic: str, result: Operand, block: ChannelBlock | None, bias: int | None, partial: PartialSum
) -> None:
    """Raise IllegalCommand for a third operand that the operation cannot use."""
    if block is not None and bias is not None:
        raise IllegalCommand(f"{mnemonic}: both a block and a bias; put the bias into the block")
    if partial.writes and (block is not None or bias is not None):
        raise IllegalCommand(
            f"{mnemonic}: partial sums take neither bias nor requantization; set them in the last step"
        )
    if block is not None:
        check_multiple(mnemonic, "block address", block.address, 16)
        check_near(mnemonic, "the block", block.address, result)
    if bias is not None:
        check_near(mnemonic, "the bias", bias, result)


def check_result(
    mnemonic: str, result: Operand, relu: bool, partial: PartialSum, sources: Iterable[DType], bias_signed: bool = False
) -> None:
    """Raise IllegalCommand for incompatible signs and types (tiu.md, "Signedness rules")."""
    sources = tuple(sources)
    if len({dtype.is_float for dtype in (*sources, result.dtype)}) > 1:
        raise IllegalCommand(f"{mnemonic}: bf16 and integers cannot be mixed; convert with a DMA copy")
    if partial.writes and relu:
        raise IllegalCommand(f"{mnemonic}: partial sums take no relu; set it in the last step")
    if relu and result.dtype.planes > 1:
        raise IllegalCommand(f"{mnemonic}: relu needs an 8-bit result; drop it or the result's second plane")
    signed = bias_signed or any(dtype.signed for dtype in sources)
    if not signed and (relu or result.dtype.signed):
        raise IllegalCommand(f"{mnemonic}: unsigned operands give an unsigned result without relu; use uint8")
    if signed and not result.dtype.signed and not relu:
        raise IllegalCommand(f"{mnemonic}: an unsigned result of signed operands needs relu; set it, or use int8")


def finish_channels(machine: Machine, sums: Array, conv: Finishes, channels: int) -> Array:
    """Apply the epilogue to the sums `[n, channels, h, w]`: bias, requantization or shift, relu, saturation. Returns
    the stored result.
    """
    dtype = conv.result.dtype
    bias: Array | None = None
    if conv.bias is not None:
        bias = load_bias(machine, conv.bias, channels, dtype, conv.bias_signed)
    if dtype.is_float:
        return finish_float(sums, bias, conv.relu)
    if conv.block is not None:
        offset, multiplier, shift = conv.block.load(machine, channels)
        return requantize(wrap(sums + offset), multiplier, shift, conv.relu, dtype)
    total = sums.astype(np.int64)
    if bias is not None:
        total = (total + bias).astype(sums.dtype)  # wraps at 32 bits
    return round_shift(total, conv.shift, conv.relu, dtype)
