"""Instructions encoded by a description, and the bit layouts into which descriptions are packed."""

from __future__ import annotations

import dataclasses
import functools
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from tpuc.errors import IllegalCommand
from tpuc.machine.encoding import Encoding, Fields
from tpuc.machine.instruction import Instruction, Region

Leftover = tuple[tuple[str, int], ...]
"""Names and values of raw fields."""


class RawFields(dict[str, int]):
    """The nonzero fields of one encoded instruction."""

    def __missing__(self, name: str) -> int:
        return 0


@dataclass(frozen=True)
class BitLayout:
    """The position of each field of an encoded instruction: bit offset and width. `resets`: values of omitted fields.

    A field that a layout lacks reads as 0, and only 0 can be written to it, so that one description serves several
    chips with different layouts.
    """

    name: str
    length_bytes: int
    fields: Mapping[str, tuple[int, int]]
    resets: Fields = dataclasses.field(default_factory=dict[str, int])

    def pack(self, fields: Fields) -> bytes:
        """The encoded bytes; raises IllegalCommand when a value does not fit its field."""
        word, places = self._reset_word, self._places
        for name, value in fields.items():
            place = places.get(name)
            if place is None:
                if value:
                    raise IllegalCommand(
                        f"{self.name}: it has no field {name!r}, which would be {value}; use another form"
                    )
                continue
            offset, width, reset = place
            if value >> width:
                raise IllegalCommand(
                    f"{self.name}: {name} has {width} bits, {value} does not fit; use at most {(1 << width) - 1}"
                )
            word ^= (value ^ reset) << offset
        return word.to_bytes(self.length_bytes, "little")

    @functools.cached_property
    def _places(self) -> Mapping[str, tuple[int, int, int]]:
        """Offset, width and reset value of each field."""
        return {name: (*place, self.resets.get(name, 0)) for name, place in self.fields.items()}

    @functools.cached_property
    def _reset_word(self) -> int:
        return sum(value << self.fields[name][0] for name, value in self.resets.items())

    def unpack(self, data: bytes) -> RawFields:
        """All nonzero fields."""
        word = int.from_bytes(data, "little")
        return RawFields(
            {
                name: value
                for name, (offset, width) in self.fields.items()
                if (value := word >> offset & ((1 << width) - 1))
            }
        )

    def value(self, data: bytes, name: str) -> int:
        """The value of one field."""
        offset, width = self.fields[name]
        return int.from_bytes(data, "little") >> offset & ((1 << width) - 1)

    def leftover(self, fields: Fields, written: Fields, skipped: Iterable[str]) -> Leftover:
        """The raw fields that differ from those that an instruction writes, except the `skipped` ones."""
        expected = {name: value for name, value in {**self.resets, **written}.items() if value}
        different = {name for name, _ in fields.items() ^ expected.items()}.difference(skipped)
        return tuple((name, fields.get(name, 0)) for name in sorted(different) if name in self.fields)


@dataclass(frozen=True, kw_only=True)
class EncodedInstruction(Instruction):
    """An instruction with a description of its encoding.

    `leftover` holds raw fields of a decoded instruction that differ from what the description writes, so that encoding
    reproduces the bytes. A leftover that is not ignored would change the meaning, and execution refuses it.
    """

    encoding: ClassVar[Encoding]
    stem: ClassVar[str]
    """The operation's name in a disassembly, without the attribute `operation`."""
    hidden: ClassVar[frozenset[str]] = frozenset({"leftover", "operation"})
    """Attributes omitted from a disassembly."""

    leftover: Leftover = ()

    def fields(self) -> dict[str, int]:
        """The raw fields, without ids and fields common to all instructions."""
        return self.encoding.fields(self)

    def mnemonic(self) -> str:
        operation = self.__dict__.get("operation")
        return self.stem if operation is None else f"{self.stem}.{operation.name.lower()}"

    def ignores(self, name: str) -> bool:
        """True if the instruction does not use a raw field."""
        return self.encoding.ignores(self, name)

    def check(self) -> None:
        """Raise IllegalCommand when the instruction cannot be executed."""
        for name, value in self.leftover:
            if not self.ignores(name):
                raise IllegalCommand(
                    f"{self.mnemonic()}: {name} = {value} has no known meaning here; leave it at its default"
                )
        for region in (*self.reads(), *self.writes()):
            self.check_region(region)

    @abstractmethod
    def check_region(self, region: Region) -> None:
        """Raise IllegalCommand for a region outside its memory."""

    def describe(self) -> str:
        shown = [(name, show_value(value)) for name, value in self.shown_fields()]
        shown += [(name, str(value)) for name, value in self.shown_leftover()]
        return " ".join([self.mnemonic(), *(f"{name}={text}" for name, text in shown)])

    def shown_fields(self) -> list[tuple[str, Any]]:
        """Name and value of every attribute that differs from its default, those without a default first."""
        fields = [field for field in dataclasses.fields(self) if field.name not in self.hidden]
        fields.sort(key=lambda field: field.default is not dataclasses.MISSING)
        values = [(field, self.__dict__[field.name]) for field in fields]
        return [(field.name, self.shown_value(field.name, value)) for field, value in values if value != field.default]

    def shown_value(self, name: str, value: Any) -> Any:
        """The text of an attribute's value in a disassembly."""
        return value

    def shown_leftover(self) -> Leftover:
        """The raw fields listed in a disassembly."""
        return tuple((name, value) for name, value in self.leftover if not self.ignores(name))


def show_value(value: Any) -> str:
    """A value as disassemblies and messages write it."""
    match value:
        case bool():
            return "yes" if value else "no"
        case tuple():
            return "x".join(str(part) for part in cast("tuple[object, ...]", value))
        case float():
            return f"{value:.9g}"
        case _:
            return str(value.name).lower() if hasattr(value, "name") else str(value)
