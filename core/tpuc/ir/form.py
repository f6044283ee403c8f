"""Forms: how ops of a dialect are written when not generically."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias

if TYPE_CHECKING:
    from tpuc.ir.attributes import Attribute
    from tpuc.ir.operation import Block, Location, Operation, Region, Value
    from tpuc.ir.types import FunctionType, Type

Part: TypeAlias = "str | Region"
"""Of a written operation: text, or a region, which stands on lines of its own."""


@dataclass(frozen=True)
class Slots:
    """Operands and results that the text of an op lists at least; what the op does without is of type none there.

    Behind a reader the op has the first `kept` operands at least, and no absent ones behind them. `absent` names the op
    whose result stands for an absent operand.
    """

    operands: int
    kept: int
    absent: str
    results: int = 0


class FormReader(Protocol):
    """The parser as a form sees it, behind the name of the op."""

    def skip(self) -> int:
        """Step over white space; returns the position."""
        ...

    def sees(self, literal: str) -> bool:
        """Does it come next?"""
        ...

    def accept(self, literal: str) -> bool:
        """Step over punctuation if it comes next."""
        ...

    def accept_word(self, word: str) -> bool:
        """Step over a word if it comes next."""
        ...

    def expect(self, literal: str, where: str = "") -> None:
        """Step over punctuation that must come next."""
        ...

    def integer(self, what: str) -> int:
        """An integer that must come next."""
        ...

    def string(self, what: str) -> str:
        """A quoted string that must come next."""
        ...

    def type(self) -> Type:
        """The type that comes next."""
        ...

    def type_list(self) -> tuple[Type, ...]:
        """One type, or several in brackets."""
        ...

    def function_type(self) -> FunctionType:
        """`(types) -> types`."""
        ...

    def dictionary(self) -> dict[str, Attribute]:
        """`{name = attribute}`."""
        ...

    def location(self) -> Location:
        """`loc(...)`, unknown when there is none."""
        ...

    def defined_value(self) -> Value:
        """A value that is defined already."""
        ...

    def region(self) -> Region:
        """`{ operations }`."""
        ...

    def put_before(self, operation: Operation) -> None:
        """Put an operation into the block before the one that is being read."""
        ...

    def operation(self, block: Block) -> None:
        """One operation at the end of a block."""
        ...

    def make(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[Type],
        attributes: Mapping[str, Attribute],
        regions: Sequence[Region] = (),
    ) -> Operation:
        """The operation of an op by name; the location that comes next is its own."""
        ...

    def fail(self, message: str, pos: int | None = None) -> NoReturn:
        """Raise the error for a position, or where we are."""
        ...


class FormWriter(Protocol):
    """The printer as a form sees it."""

    def value(self, value: Value) -> str:
        """`%3`, or `%3#1`."""
        ...

    def type(self, type: Type) -> str:
        """The text of a type."""
        ...

    def attributes(self, operation: Operation, without: Sequence[str] = ()) -> str:
        """` {...}`, empty when there are none besides those that are left out."""
        ...

    def inline(self, operation: Operation) -> Sequence[Part]:
        """An operation without results and location, as part of another."""
        ...


class Form(ABC):
    """Reads and writes operations of some ops."""

    @abstractmethod
    def read(self, name: str, results: int, reader: FormReader) -> Operation:
        """The operation behind its name; `results` is how many results the text names."""

    @abstractmethod
    def write(self, operation: Operation, writer: FormWriter) -> Sequence[Part] | None:
        """The operation from its name to before its location; None where only the generic form can say it."""
