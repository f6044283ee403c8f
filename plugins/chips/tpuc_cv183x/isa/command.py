"""The base of all instruction classes: encoding by the tables, decoding without loss, describing."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

from tpuc.api import Engine, IllegalCommand, Instruction, Region

from tpuc_cv183x.isa.geometry import BASE_REGISTERS, GMEM_BITS, LANE_BYTES, LANES
from tpuc_cv183x.isa.tables import Fields, load_table
from tpuc_cv183x.isa.types import NEAR_MASK, DType, Layout, Operand, Scalar, Shape4, Source, dtype_of, format_address

ID_LIMIT = 0xFFFF
"""Both engines count with 16 bits."""
NUMBER, WAIT = (
    {Engine.COMPUTE: "cmd_id_tpu", Engine.DMA: "cmd_id"},
    {
        Engine.COMPUTE: "cmd_id_gdma",
        Engine.DMA: "wait_id_tpu",
    },
)
ENABLE: dict[Engine, dict[str, int]] = {
    Engine.COMPUTE: {"cmd_en": 1, "cmd_id_en": 1},
    Engine.DMA: {"vld": 1, "bar_en": 1},
}
END: dict[Engine, dict[str, int]] = {
    Engine.COMPUTE: {"cmd_end": 1, "cmd_intr_en": 1},
    Engine.DMA: {"eod": 1, "intp_en": 1},
}
"""Set on the last descriptor of a segment, by the runtime or in a dmabuf."""
LAYER = {Engine.COMPUTE: "layer_info", Engine.DMA: "layer_ID"}
_HIDDEN = ("leftover", "layer")


@dataclass(frozen=True, kw_only=True)
class Cv183xInstruction(Instruction):
    """One descriptor. A subclass maps its own fields to those of the register description and back.

    `leftover` holds raw fields of a decoded descriptor that differ from what the subclass would write, so that encoding
    gives the same bytes; a leftover that is not `ignored` would change the meaning, and execution refuses it.
    `layer`: a free number that names the layer in disassemblies and profiles.
    """

    ignored: ClassVar[frozenset[str]] = frozenset()
    """Fields that this operation does not look at."""

    layer: int = 0
    leftover: tuple[tuple[str, int], ...] = ()

    @abstractmethod
    def fields(self) -> dict[str, int]:
        """Raw fields that differ from the reset values, except ids, enable bits and the layer."""

    @classmethod
    @abstractmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        """The instruction for raw fields; raises IllegalCommand for codes that do not exist."""

    @abstractmethod
    def mnemonic(self) -> str:
        """The operation's short name in a disassembly."""

    def ignores(self, name: str) -> bool:
        """Is a raw field without meaning for this instruction?"""
        return name in self.ignored

    def encode(self, number: int, wait: int) -> bytes:
        """The logical form, as a cmdbuf holds it."""
        if not 0 < number <= ID_LIMIT or not 0 <= wait <= ID_LIMIT:
            raise IllegalCommand(
                f"{self.mnemonic()}: id {number} waiting for {wait}: ids have 16 bits; split the program into segments"
            )
        engine = self.engine
        ids = {NUMBER[engine]: number, WAIT[engine]: wait, LAYER[engine]: self.layer}
        return load_table(engine).pack({**ENABLE[engine], **ids, **self.fields(), **dict(self.leftover)})

    def check(self) -> None:
        """Raise IllegalCommand when the descriptor cannot be executed as it stands."""
        for name, value in self.leftover:
            if not self.ignores(name):
                raise IllegalCommand(
                    f"{self.mnemonic()}: {name} = {value} has no known meaning here; leave it at its default"
                )
        for region in (*self.reads(), *self.writes()):
            check_region(self.mnemonic(), region)

    def describe(self) -> str:
        parts = [f"{name}={_show(name, value)}" for name, value in self.shown_fields()]
        return " ".join([self.mnemonic(), *parts])

    def shown_fields(self) -> list[tuple[str, Any]]:
        """Name and value of every field that differs from its default, then raw fields that have no known meaning."""
        shown: list[tuple[str, Any]] = []
        for field in dataclasses.fields(self):
            value = self.__dict__[field.name]
            if value != field.default and field.name not in _HIDDEN and field.name != "operation":
                shown.append((field.name, value))
        return shown + [(name, value) for name, value in self.leftover if not self.ignores(name)]


def check_region(mnemonic: str, region: Region) -> None:
    """Refuse regions outside their memory."""
    if region.space == "lmem":
        legal = 0 <= region.start <= region.end <= LANE_BYTES and 0 <= region.first_lane < region.end_lane <= LANES
    else:
        legal = 0 <= region.start <= region.end <= BASE_REGISTERS << GMEM_BITS
    if not legal:
        raise IllegalCommand(
            f"{mnemonic}: bytes {region.start:#x}..{region.end:#x} of lanes {region.first_lane}..{region.end_lane - 1} "
            f"are outside {region.space}; move or split the tensor"
        )


def check_multiple(mnemonic: str, what: str, value: int, unit: int) -> None:
    """Refuse an address or stride that is no multiple of `unit` bytes."""
    if value % unit:
        raise IllegalCommand(f"{mnemonic}: {what} {value:#x} must be a multiple of {unit} bytes; move or pad it")


def check_near(mnemonic: str, what: str, address: int, result: Operand) -> None:
    """Refuse a right or third operand outside the two lanes that its 16-bit address can reach."""
    if (address ^ result.address) & ~NEAR_MASK:
        first = result.lane & ~1
        raise IllegalCommand(
            f"{mnemonic}: {what} starts in lane {address // LANE_BYTES}, beside this result it can only start in lane "
            f"{first} or {first + 1}; move it"
        )


def _show(name: str, value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case tuple():
            return "x".join(str(part) for part in cast("tuple[object, ...]", value))
        case int() if name in ("bias", "table"):
            return f"[{format_address(value)}]"
        case int() if name in ("source", "destination"):
            return format_dma_address(value)
        case _:
            return str(value.name).lower() if hasattr(value, "name") else str(value)


def format_dma_address(address: int) -> str:
    """`[0x100]` in local memory, `g1+0x100` in GMEM behind base register 1."""
    from tpuc_cv183x.isa.geometry import is_gmem, split_gmem

    if is_gmem(address):
        base, offset = split_gmem(address)
        return f"g{base}+{offset:#x}"
    return f"[{format_address(address)}]"


class FieldReader:
    """Raw fields of one descriptor and the usual groups of them."""

    def __init__(self, fields: Fields) -> None:
        self.raw = fields

    def __getitem__(self, name: str) -> int:
        return self.raw[name]

    def shape(self, prefix: str) -> Shape4:
        """`prefix`_n, _c, _h, _w."""
        return (self[f"{prefix}_n"], self[f"{prefix}_c"], self[f"{prefix}_h"], self[f"{prefix}_w"])

    def strides(self, prefix: str) -> Shape4:
        """`prefix`_n_str, ..."""
        return (self[f"{prefix}_n_str"], self[f"{prefix}_c_str"], self[f"{prefix}_h_str"], self[f"{prefix}_w_str"])

    def dtype(self, prefix: str) -> DType:
        """The element type of an operand."""
        return dtype_of(self["opd_typ"], self[f"opt_{prefix}_int8"], self[f"opt_{prefix}_sign"])

    def near(self, prefix: str) -> int:
        """The address of operand 1 or 2, whose 16 bits count from the result's pair of lanes."""
        return self["res0_addr"] & ~NEAR_MASK | self[f"{prefix}_addr"]

    def operand(self, prefix: str, shape: Shape4, planes: int = 0) -> Operand:
        """The tensor `prefix`; explicit strides that equal the aligned layout count as that. `planes` as in memory."""
        dtype, code = self.dtype(prefix), self[f"short_{prefix}_str"]
        layout: Layout | Shape4 = self.strides(prefix) if code == 3 else Layout(code)
        plain = Operand(self.near(prefix) if prefix in ("opd1", "opd2") else self[f"{prefix}_addr"], dtype)
        if layout == plain.strides(shape):
            layout = Layout.ALIGNED
        operand = Operand(plain.address, dtype, layout)
        if max(planes, dtype.planes) == 1 or self[f"{prefix}_b_str"] == operand.step(shape):
            return operand
        return Operand(plain.address, dtype, layout, self[f"{prefix}_b_str"])

    def source(self, prefix: str, shape: Shape4) -> Source:
        """A tensor, or an immediate when `prefix`_const is set."""
        if not self[f"opt_{prefix}_const"]:
            return self.operand(prefix, shape)
        return Scalar(self[f"{prefix}_addr"], self.dtype(prefix))


def shape_fields(prefix: str, shape: tuple[int, ...], names: str = "nchw") -> dict[str, int]:
    """Fields `prefix`_n ... from a shape."""
    return {f"{prefix}_{name}": size for name, size in zip(names, shape, strict=True)}


def type_fields(prefix: str, dtype: DType) -> dict[str, int]:
    """Sign and width flags of an operand."""
    return {f"opt_{prefix}_sign": int(dtype.signed), f"opt_{prefix}_int8": int(dtype.planes == 1)}


def operand_fields(prefix: str, operand: Operand, shape: Shape4, planes: int = 0) -> dict[str, int]:
    """Address, flags and explicit strides (`short_*_str` 3), with the plane step of a tensor of several planes."""
    fields = type_fields(prefix, operand.dtype)
    fields |= {f"{prefix}_addr": _address_field(prefix, operand), f"short_{prefix}_str": 3}
    fields |= {f"{prefix}_{name}_str": step for name, step in zip("nchw", operand.strides(shape), strict=True)}
    if max(planes, operand.dtype.planes) > 1:
        fields[f"{prefix}_b_str"] = operand.step(shape)
    return fields


def _address_field(prefix: str, operand: Operand) -> int:
    return operand.address & NEAR_MASK if prefix in ("opd1", "opd2") else operand.address


def derived_fields(mnemonic: str, prefix: str, operand: Operand, layout: Layout = Layout.ALIGNED) -> dict[str, int]:
    """Address and flags of an operand whose layout the operation fixes."""
    if operand.layout is not layout:
        raise IllegalCommand(f"{mnemonic}: operand {operand} must have the layout {layout.name.lower()}; copy it")
    place = {f"{prefix}_addr": _address_field(prefix, operand), f"short_{prefix}_str": int(layout)}
    return type_fields(prefix, operand.dtype) | place


class ComputeInstruction(Cv183xInstruction):
    """Executed by the TIU."""

    engine = Engine.COMPUTE
    float_ignored: ClassVar[frozenset[str]] = frozenset(
        {"opt_shift_typ", "opt_right_shift", "opt_left_shift", "opt_rshift_typ", "opd0_ins_val"}
        | {f"opt_{name}_sign" for name in ("res0", "opd0", "opd1", "opd2")}
    )
    """Fields that bf16 operations do not look at."""

    @property
    def is_float(self) -> bool:
        """Is it a bf16 operation?"""
        return False

    def ignores(self, name: str) -> bool:
        if self.is_float and name in self.float_ignored:
            return True
        return name in self.ignored or name.startswith(self.unused_operands())

    def unused_operands(self) -> tuple[str, ...]:
        """Prefixes of raw fields that this instruction does not use."""
        return ("rsvd",)


class DmaInstruction(Cv183xInstruction):
    """Executed by the TDMA engine."""

    engine = Engine.DMA
