"""The definition of an op: a frozen dataclass whose fields are its attributes, its semantics, and its textual form."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Protocol, TypeAlias

from tpuc.ir.attributes import FieldKind
from tpuc.ir.types import F32, TensorType, Types

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import TypeVar

    from tpuc.ir.attributes import Attribute
    from tpuc.ir.operation import Block, Location, Module, Operation, Region, Value
    from tpuc.ir.types import FunctionType, Type

    Array: TypeAlias = npt.NDArray[Any]
    OpT_co = TypeVar("OpT_co", bound="Op", covariant=True, default=Any)
else:
    from typing import TypeVar

    OpT_co = TypeVar("OpT_co", covariant=True)  # Python 3.11 knows no defaults: those are for type checkers


class Op:
    """Base of every op definition.

    A subclass is a frozen dataclass with `name = "dialect.Name"`; its typed fields are the attributes. Traits are mixin
    classes without behavior (`FusesRelu`, `Elementwise`, `ShapeOnly`, ...).
    """

    name: ClassVar[str] = ""
    op_kind: ClassVar[str] = ""
    """`dialect.Name` shared by ops that are computed alike: a lowering for the kind applies to each op without its
    own.
    """
    form: ClassVar[Form | None] = None
    """The op's custom textual form; the generic form is always accepted."""
    slots: ClassVar[Slots | None] = None
    """The operands and results that its text lists."""

    def infer(self, operands: Types) -> Types | None:
        """Result types (shape and element family) from operand types; None: the declared type decides.

        Raises ValueError with a sentence when the operands do not fit the op.
        """
        return None

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        """Compute the op in plain numpy; absent optional operands are empty arrays of shape (0,)."""
        raise NotImplementedError(f"{self.name} has no evaluation")

    def flops(self, node: Node) -> int:
        """Arithmetic operations of one run (docs/spec)."""
        return 0

    def verify(self, operation: Operation) -> None:
        """Check what types do not express: regions, terminators, attributes. Raises ValueError with a sentence."""


class StructuredOp(Op):
    """An op that depends on more than its operands: regions, functions of the module, attributes without fields."""

    def run(self, operation: Operation, values: Mapping[Value, Array], module: Module) -> Sequence[Array]:
        """The results. `values` holds the operands and the values that the regions capture."""
        raise NotImplementedError(f"{self.name} has no evaluation")


class UnregisteredOp(Op):
    """An op of a dialect that is not loaded; `Operation.extra_attributes` keeps all its attributes."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name  # pyright: ignore[reportAttributeAccessIssue]  # instances differ by name only

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnregisteredOp) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


@dataclasses.dataclass(frozen=True, slots=True)
class OpField:
    """One attribute of an op definition."""

    name: str
    kind: FieldKind
    optional: bool
    default: Any  # dataclasses.MISSING when the attribute is required
    of_integers: bool = False
    """The field only describes how stored integers are computed with. Declared by the field's metadata of that name."""


@functools.cache
def op_fields(op: type[Op]) -> tuple[OpField, ...]:
    """The attributes of an op definition in declaration order; raises TypeError for an untyped field."""
    if not dataclasses.is_dataclass(op):
        return ()
    hints = typing.get_type_hints(op, include_extras=True)
    result: list[OpField] = []
    for field in dataclasses.fields(op):
        hint = hints[field.name]
        optional = False
        if typing.get_origin(hint) in (typing.Union, types.UnionType):
            members = [member for member in typing.get_args(hint) if member is not type(None)]
            optional = len(members) < len(typing.get_args(hint))
            hint = members[0]
        metadata = getattr(hint, "__metadata__", None)
        if not metadata:
            raise TypeError(f"field '{field.name}' of {op.__name__} needs an attribute type such as I64 or F64Array")
        of_integers = bool(field.metadata.get("of_integers"))
        result.append(OpField(field.name, metadata[0], optional, field.default, of_integers))
    return tuple(result)


@dataclasses.dataclass(frozen=True, slots=True)
class Node(Generic[OpT_co]):
    """A read-only view of an operation for hooks: its op, types and name. Hooks know which op they serve."""

    op: OpT_co
    operand_types: tuple[TensorType, ...]
    result_types: tuple[TensorType, ...]
    name: str = ""

    @property
    def result_type(self) -> TensorType:
        """The first result's type."""
        return self.result_types[0]

    @staticmethod
    def of(operation: Operation) -> Node[Any]:
        """The view of an operation; absent operands have an empty f32 tensor type of shape (0,)."""
        return operation.node()


ABSENT = TensorType((0,), F32)
"""The operand type of an absent optional operand in a `Node`."""


Part: TypeAlias = "str | Region"
"""Part of a printed operation: text, or a region, which takes lines of its own."""


@dataclass(frozen=True)
class Slots:
    """The minimum number of operands and results in the text of an op; missing ones have type none there.

    After parsing, the op has at least the first `kept` operands, and no absent ones after them. `absent` names the op
    whose result stands for an absent operand.
    """

    operands: int
    kept: int
    absent: str
    results: int = 0


class FormReader(Protocol):
    """The parser's interface for custom forms, positioned after the op name."""

    def skip(self) -> int:
        """Step over white space; returns the position."""
        ...

    def sees(self, literal: str) -> bool:
        """True if the given punctuation comes next."""
        ...

    def accept(self, literal: str) -> bool:
        """Step over punctuation if it comes next."""
        ...

    def accept_word(self, word: str) -> bool:
        """Step over a word if it comes next."""
        ...

    def expect(self, literal: str, where: str = "") -> None:
        """Step over punctuation that must come next."""

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
        """A value that is already defined."""
        ...

    def region(self) -> Region:
        """`{ operations }`."""
        ...

    def put_before(self, operation: Operation) -> None:
        """Insert an operation into the block before the operation that is being parsed."""

    def operation(self, block: Block) -> None:
        """One operation at the end of a block."""

    def make(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[Type],
        attributes: Mapping[str, Attribute],
        regions: Sequence[Region] = (),
    ) -> Operation:
        """Create an operation by op name; the location that follows is its own."""
        ...

    def fail(self, message: str, pos: int | None = None) -> NoReturn:
        """Raise the error for a position, by default the current one."""
        ...


class FormWriter(Protocol):
    """The printer's interface for custom forms."""

    def value(self, value: Value) -> str:
        """`%3`, or `%3#1`."""
        ...

    def type(self, type: Type) -> str:
        """The text of a type."""
        ...

    def attributes(self, operation: Operation, without: Sequence[str] = ()) -> str:
        """` {...}`, empty when there are no attributes besides the excluded ones."""
        ...

    def inline(self, operation: Operation) -> Sequence[Part]:
        """An operation without results and location, nested in another."""
        ...


class Form(ABC):
    """The custom textual form of some ops."""

    @abstractmethod
    def read(self, name: str, results: int, reader: FormReader) -> Operation:
        """Parse the operation after its name; `results` is the number of results in the text."""

    @abstractmethod
    def write(self, operation: Operation, writer: FormWriter) -> Sequence[Part] | None:
        """The text from the op name up to the location; None where only the generic form can express the operation."""
