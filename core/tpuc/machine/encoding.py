"""Describe the encoding of an instruction once and use it in both directions.

A description (`Encoding`) is a sequence of codecs. Each codec maps attributes of the instruction to raw fields. Writing
reads the instruction; reading fills the attributes of a draft, codec by codec, so that a condition may use attributes
filled by earlier codecs, and properties of them. Where two codecs write one field, the later one wins.
"""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

from tpuc.errors import IllegalCommand

Fields: TypeAlias = Mapping[str, int]
"""Raw field values by name in the register description."""
Draft: TypeAlias = Any
"""An instruction whose attributes are being filled."""
Condition: TypeAlias = Callable[[Any], bool]
"""A predicate on an instruction or its draft."""
InstructionT = TypeVar("InstructionT")


class FieldCodec(ABC):
    """One element of a description."""

    @abstractmethod
    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        """Set the raw fields of the attributes."""

    @abstractmethod
    def read(self, draft: Draft, fields: Fields) -> None:
        """Fill the attributes; raises IllegalCommand or ValueError for invalid codes."""

    def ignores(self, instruction: Any, name: str) -> bool:
        """True if the operation does not use this field."""
        return False


class Encoding(FieldCodec):
    """A description, or a part shared by several descriptions."""

    def __init__(self, *codecs: FieldCodec) -> None:
        self.codecs: Sequence[FieldCodec] = tuple(
            inner for codec in codecs for inner in (codec.codecs if isinstance(codec, Encoding) else (codec,))
        )
        silent = (Constant, Derived, Ignored)
        self._writers = [codec.write for codec in self.codecs if not isinstance(codec, Ignored)]
        self._readers = [codec.read for codec in self.codecs if not isinstance(codec, silent)]

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        for write in self._writers:
            write(instruction, fields)

    def read(self, draft: Draft, fields: Fields) -> None:
        for read in self._readers:
            read(draft, fields)

    def ignores(self, instruction: Any, name: str) -> bool:
        return any(codec.ignores(instruction, name) for codec in self.codecs)

    def fields(self, instruction: Any) -> dict[str, int]:
        """The raw fields of an instruction."""
        fields: dict[str, int] = {}
        self.write(instruction, fields)
        return fields

    def instruction(self, cls: type[InstructionT], fields: Fields, **given: Any) -> InstructionT:
        """The instruction of class `cls` decoded from raw fields; `given`: attributes that the fields do not encode."""
        draft = object.__new__(cls)
        draft.__dict__.update(_defaults(cls), **given)
        self.read(draft, fields)
        return draft


@functools.cache
def _defaults(cls: Any) -> Mapping[str, Any]:
    """The attributes of a dataclass with a default."""
    fields: Sequence[dataclasses.Field[Any]] = dataclasses.fields(cls)
    return {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}


# -- no attribute ------------------------------------------------------------------------------------------------------


class Constant(FieldCodec):
    """Fields with the same value in every instruction of a class."""

    def __init__(self, **fields: int) -> None:
        self._fields = fields

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        fields.update(self._fields)

    def read(self, draft: Draft, fields: Fields) -> None:
        pass


@dataclass(frozen=True)
class Derived(FieldCodec):
    """A field computed from attributes that other codecs read."""

    field: str
    value: Callable[[Any], int]

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        fields[self.field] = int(self.value(instruction))

    def read(self, draft: Draft, fields: Fields) -> None:
        pass


class Ignored(FieldCodec):
    """Fields that the operation does not use; a name ending in `*` is a prefix."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)
        self._prefixes = tuple(name[:-1] for name in names if name.endswith("*"))

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        pass

    def read(self, draft: Draft, fields: Fields) -> None:
        pass

    def ignores(self, instruction: Any, name: str) -> bool:
        return name in self._names or name.startswith(self._prefixes)


# -- one attribute -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number(FieldCodec):
    """An attribute that equals a field plus `offset`."""

    attribute: str
    field: str
    offset: int = 0

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        fields[self.field] = instruction.__dict__[self.attribute] - self.offset

    def read(self, draft: Draft, fields: Fields) -> None:
        draft.__dict__[self.attribute] = fields[self.field] + self.offset


@dataclass(frozen=True)
class Numbers(FieldCodec):
    """A tuple of numbers, each a field plus `offset`."""

    attribute: str
    names: tuple[str, ...]
    offset: int = 0

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        for name, value in zip(self.names, instruction.__dict__[self.attribute], strict=True):
            fields[name] = value - self.offset

    def read(self, draft: Draft, fields: Fields) -> None:
        draft.__dict__[self.attribute] = tuple([fields[name] + self.offset for name in self.names])


@dataclass(frozen=True)
class Signed(FieldCodec):
    """A two's complement number of `width` bits, `at` bits above the lowest of a field that others may share.

    `significant`: how many of the bits count when they are read; 0 for all.
    """

    attribute: str
    field: str
    width: int
    at: int = 0
    significant: int = 0

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        value, half = instruction.__dict__[self.attribute], 1 << (self.significant or self.width) - 1
        if not -half <= value < half:
            raise IllegalCommand(
                f"{instruction.mnemonic()}: {self.attribute} {value} does not fit; use {-half}..{half - 1}"
            )
        fields[self.field] = fields.get(self.field, 0) | (value & (1 << self.width) - 1) << self.at

    def read(self, draft: Draft, fields: Fields) -> None:
        draft.__dict__[self.attribute] = signed(fields[self.field] >> self.at, self.significant or self.width)


@dataclass(frozen=True)
class Coded(FieldCodec):
    """A value with a code: an enumeration, flag or bit pattern. `at` and `width` select it from a shared field."""

    attribute: str
    field: str
    code: Callable[[Any], int]
    value: Callable[[int], Any]
    at: int = 0
    width: int = 64

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        code = self.code(instruction.__dict__[self.attribute]) << self.at
        fields[self.field] = fields.get(self.field, 0) | code if self.width < 64 else code

    def read(self, draft: Draft, fields: Fields) -> None:
        draft.__dict__[self.attribute] = self.value(fields[self.field] >> self.at & (1 << self.width) - 1)


def flag(attribute: str, field: str) -> Coded:
    """A Boolean."""
    return Coded(attribute, field, int, bool)


@dataclass(frozen=True)
class Words(FieldCodec):
    """A number split over several fields, lowest bits first: (field, bits) each."""

    attribute: str
    words: tuple[tuple[str, int], ...]

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        self.put(instruction.__dict__[self.attribute], fields)

    def put(self, value: int, fields: dict[str, int]) -> None:
        """Write the number into raw fields."""
        for name, width in self.words[:-1]:
            fields[name] = value & (1 << width) - 1
            value >>= width
        fields[self.words[-1][0]] = value

    def read(self, draft: Draft, fields: Fields) -> None:
        draft.__dict__[self.attribute] = self.number(fields)

    def number(self, fields: Fields) -> int:
        """Read the number from raw fields."""
        value = at = 0
        for name, width in self.words:
            value |= fields[name] << at
            at += width
        return value


class Defaulted(FieldCodec):
    """An attribute whose value None stands for a value derived from other attributes, which its fields then hold."""

    def __init__(self, attribute: str, codec: FieldCodec, default: Callable[[Any], Any], none: Any = None) -> None:
        self._attribute, self._codec = attribute, codec
        self._default, self._none = default, none

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        value = instruction.__dict__[self._attribute]
        if value == self._none:
            instruction = SimpleNamespace(**{self._attribute: self._default(instruction)})
        self._codec.write(instruction, fields)

    def read(self, draft: Draft, fields: Fields) -> None:
        self._codec.read(draft, fields)
        if draft.__dict__[self._attribute] == self._default(draft):
            draft.__dict__[self._attribute] = self._none


class Nested(FieldCodec):
    """An attribute with a class and a description of its own."""

    def __init__(self, attribute: str, cls: type[Any], *codecs: FieldCodec) -> None:
        self._attribute, self._cls, self._encoding = attribute, cls, Encoding(*codecs)

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        self._encoding.write(instruction.__dict__[self._attribute], fields)

    def read(self, draft: Draft, fields: Fields) -> None:
        draft.__dict__[self._attribute] = self._encoding.instruction(self._cls, fields)


# -- alternatives ------------------------------------------------------------------------------------------------------


class Choice(FieldCodec):
    """Selects one of several descriptions by the instruction."""

    @abstractmethod
    def chosen(self, instruction: Any) -> FieldCodec:
        """The description for this instruction, or for a partly filled draft."""

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        self.chosen(instruction).write(instruction, fields)

    def read(self, draft: Draft, fields: Fields) -> None:
        self.chosen(draft).read(draft, fields)

    def ignores(self, instruction: Any, name: str) -> bool:
        return self.chosen(instruction).ignores(instruction, name)


class When(Choice):
    """One description where a condition holds, another elsewhere."""

    def __init__(self, condition: Condition, *then: FieldCodec, otherwise: Sequence[FieldCodec] = ()) -> None:
        self._condition = condition
        self._then, self._otherwise = Encoding(*then), Encoding(*otherwise)

    def chosen(self, instruction: Any) -> FieldCodec:
        return self._then if self._condition(instruction) else self._otherwise


class Cases(Choice):
    """One description per value of an attribute; `others` for values without their own."""

    def __init__(self, attribute: str, cases: Mapping[Any, FieldCodec], others: FieldCodec | None = None) -> None:
        self._attribute, self._cases = attribute, cases
        self._others = others or Encoding()

    def chosen(self, instruction: Any) -> FieldCodec:
        return self._cases.get(instruction.__dict__[self._attribute], self._others)


class Present(FieldCodec):
    """Attributes that are present where `field` has the code `value`; where they are None it has the code `absent`.

    `otherwise`: the additional encoding where they are None.
    """

    def __init__(
        self,
        field: str,
        attributes: Sequence[str],
        *then: FieldCodec,
        value: int = 1,
        absent: int = 0,
        otherwise: Sequence[FieldCodec] = (),
    ) -> None:
        self._field, self._attributes = field, tuple(attributes)
        self._value, self._absent = value, absent
        self._then, self._otherwise = Encoding(*then), Encoding(*otherwise)

    def _is_there(self, instruction: Any) -> bool:
        first, *others = (instruction.__dict__[name] is not None for name in self._attributes)
        if any(other is not first for other in others):
            raise IllegalCommand(f"{instruction.mnemonic()}: give {' and '.join(self._attributes)}, or none of them")
        return first

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        if self._is_there(instruction):
            fields[self._field] = self._value
            self._then.write(instruction, fields)
        else:
            fields[self._field] = self._absent
            self._otherwise.write(instruction, fields)

    def read(self, draft: Draft, fields: Fields) -> None:
        if fields[self._field] == self._value:
            self._then.read(draft, fields)
        else:
            draft.__dict__.update(dict.fromkeys(self._attributes))
            self._otherwise.read(draft, fields)

    def ignores(self, instruction: Any, name: str) -> bool:
        return (self._then if self._is_there(instruction) else self._otherwise).ignores(instruction, name)


def signed(bits: int, width: int) -> int:
    """`bits` as a two's complement number of `width` bits."""
    bits &= (1 << width) - 1
    return bits - (1 << width) if bits >> (width - 1) else bits
