"""Base class of all instructions: table-driven encoding, lossless decoding, description."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from tpuc.api import Engine, IllegalCommand, Region
from tpuc.api.encoding import EncodedInstruction

from tpuc_cv18.isa.geometry import BASE_REGISTERS, GMEM_BITS, LANE_BYTES, is_gmem, split_gmem
from tpuc_cv18.isa.tables import LAYER, encode
from tpuc_cv18.isa.target import NO_CHIP, Target
from tpuc_cv18.isa.types import NEAR_MASK, Operand, format_address


@dataclass(frozen=True, kw_only=True)
class Cv18Instruction(EncodedInstruction):
    """One descriptor. `layer` is a free number that identifies the layer in disassemblies and profiles. `target` is the
    chip; assemblers and decoders set it.
    """

    hidden = frozenset({"leftover", "layer", "operation", "target"})

    layer: int = 0
    target: Target = NO_CHIP

    def fields(self) -> dict[str, int]:
        return {LAYER[self.engine]: self.layer, **super().fields()}

    def encode(self, number: int, wait: int) -> bytes:
        """The logical form, as stored in a cmdbuf."""
        return encode(self, number, wait, self.target.layouts)

    def on(self, target: Target) -> Self:
        """The same instruction for another chip."""
        return self if self.target is target else replace(self, target=target)

    def check_region(self, region: Region) -> None:
        if not is_legal(region, self.target):
            check_region(self.mnemonic(), region, self.target)

    def shown_value(self, name: str, value: Any) -> Any:
        return f"[{format_address(value)}]" if name in ("bias", "table") and isinstance(value, int) else value


def is_legal(region: Region, target: Target) -> bool:
    """True if a region is within its memory."""
    if region.space != "lmem":
        return 0 <= region.start <= region.end <= BASE_REGISTERS << GMEM_BITS
    within = 0 <= region.start <= region.end <= LANE_BYTES
    return within and 0 <= region.first_lane < region.end_lane <= target.lanes


def check_region(mnemonic: str, region: Region, target: Target) -> None:
    """Raise IllegalCommand for regions outside their memory."""
    if not is_legal(region, target):
        raise IllegalCommand(
            f"{mnemonic}: bytes {region.start:#x}..{region.end:#x} of lanes {region.first_lane}..{region.end_lane - 1} "
            f"are outside {region.space}; move or split the tensor"
        )


def check_multiple(mnemonic: str, what: str, value: int, unit: int) -> None:
    """Raise IllegalCommand for an address or stride that is not a multiple of `unit` bytes."""
    if value % unit:
        raise IllegalCommand(f"{mnemonic}: {what} {value:#x} must be a multiple of {unit} bytes; move or pad it")


def check_near(mnemonic: str, what: str, address: int, result: Operand) -> None:
    """Raise IllegalCommand for a right or third operand outside the two lanes that its 16-bit address reaches."""
    if (address ^ result.address) & ~NEAR_MASK:
        first = result.lane & ~1
        raise IllegalCommand(
            f"{mnemonic}: {what} starts in lane {address // LANE_BYTES}, for this result it can only start in lane "
            f"{first} or {first + 1}; move it"
        )


def format_dma_address(address: int) -> str:
    """Format an address: `[0x100]` in local memory, `g1+0x100` in GMEM with base register 1."""
    if is_gmem(address):
        base, offset = split_gmem(address)
        return f"g{base}+{offset:#x}"
    return f"[{format_address(address)}]"


def format_direction(source: int, destination: int) -> str:
    """Format a transfer: `[0x100] -> g1+0x100`."""
    return f"{format_dma_address(source)} -> {format_dma_address(destination)}"


class ComputeInstruction(Cv18Instruction):
    """A command of the TIU."""

    engine = Engine.COMPUTE
    float_ignored: ClassVar[frozenset[str]] = frozenset(
        {"opt_shift_typ", "opt_right_shift", "opt_left_shift", "opt_rshift_typ", "opd0_ins_val"}
        | {f"opt_{name}_sign" for name in ("res0", "opd0", "opd1", "opd2")}
    )
    """Fields that bf16 operations ignore."""

    @property
    def is_float(self) -> bool:
        """True for a bf16 operation."""
        return False

    def ignores(self, name: str) -> bool:
        if self.is_float and name in self.float_ignored:
            return True
        return name.startswith("rsvd") or super().ignores(name)


class DmaInstruction(Cv18Instruction):
    """A command of the TDMA engine."""

    engine = Engine.DMA

    def ignores(self, name: str) -> bool:
        # The runtime sets the barrier bit of every command.
        return name.startswith("rsv") or name == "bar_en" or super().ignores(name)

    def describe(self) -> str:
        shown = [f"{name}={value}" for name, value in self.shown_leftover()]
        return " ".join([self.mnemonic(), *self.details(), *shown])

    def details(self) -> list[str]:
        """The text that a disassembly prints after the mnemonic."""
        raise NotImplementedError
