"""Types of values: tensors of plain or quantized elements, none, functions, and foreign types kept as text."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tpuc.ir.attributes import Attribute

DYNAMIC = -1


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A plain element type by its MLIR name: `f32 f16 bf16 f8E4M3FN i8 si8 ui8 ... index`."""

    name: str

    @property
    def bits(self) -> int:
        """Storage bits; `index` counts as 64."""
        return _SCALAR_BITS.get(self.name) or int(self.name.lstrip("sui"))

    @property
    def is_float(self) -> bool:
        """`f32`, `f16`, `bf16` and the 8-bit floats."""
        return self.name.startswith(("f", "bf"))

    @property
    def is_unsigned(self) -> bool:
        """`ui*` only; MLIR's signless `i*` counts as signed, as in TPU-MLIR's files."""
        return self.name.startswith("u")

    def __str__(self) -> str:
        return self.name


_SCALAR_BITS = {"bf16": 16, "index": 64, "f8E4M3FN": 8, "f8E5M2": 8, "f16": 16, "f32": 32, "f64": 64}

F32, F16, BF16 = ScalarType("f32"), ScalarType("f16"), ScalarType("bf16")
I8, U8, I16, I32, I64 = (ScalarType(name) for name in ("i8", "u8", "i16", "i32", "i64"))
SI8, UI8, SI32, UI32 = (ScalarType(name) for name in ("si8", "ui8", "si32", "ui32"))


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A float element with an observed range `[minimum, maximum]` (`!quant.calibrated<f32<min:max>>`)."""

    expressed: ScalarType
    minimum: float
    maximum: float

    @property
    def threshold(self) -> float:
        """The symmetric bound: the larger magnitude."""
        return max(abs(self.minimum), abs(self.maximum))


@dataclass(frozen=True, slots=True)
class Uniform:
    """Integers `q` that represent `(q - zero_point) * scale` (`!quant.uniform<i8:f32, scale:zp>`).

    `storage` is spelled `i8`, `u8`, `i16`, ...; `low` and `high` are the printed storage bounds when they are narrower.
    """

    storage: ScalarType
    expressed: ScalarType
    scale: float
    zero_point: int = 0
    low: int | None = None
    high: int | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest stored integer."""
        bits = self.storage.bits
        default = (0, (1 << bits) - 1) if self.storage.is_unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
        return (default[0] if self.low is None else self.low, default[1] if self.high is None else self.high)


@dataclass(frozen=True, slots=True)
class UniformPerAxis:
    """Like `Uniform`, with one scale and zero point per index of `axis`."""

    storage: ScalarType
    expressed: ScalarType
    axis: int
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """A type of another dialect, kept as its text without the leading `!`."""

    text: str


ElementType: TypeAlias = ScalarType | Calibrated | Uniform | UniformPerAxis | OpaqueType


class ShapeNotStatic(ValueError):
    """The extents of a type were requested but are not static."""


@dataclass(frozen=True, slots=True)
class NoneType:
    """The type of an absent optional operand."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor; `shape` None is unranked, an extent of `DYNAMIC` is unknown; `encoding` holds the DDR address."""

    shape: tuple[int, ...] | None
    element: ElementType
    encoding: Attribute | None = None

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape of a ranked static tensor; raises ShapeNotStatic otherwise."""
        if self.shape is None or DYNAMIC in self.shape:
            raise ShapeNotStatic("the shape of this tensor is not static")
        return self.shape

    @property
    def rank(self) -> int:
        """Number of dimensions; raises ShapeNotStatic when unranked."""
        return len(self.dims)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.dims)

    @property
    def storage(self) -> ScalarType:
        """The storage type of one element."""
        match self.element:
            case ScalarType() as scalar:
                return scalar
            case Calibrated(expressed=expressed):
                return expressed
            case Uniform(storage=storage) | UniformPerAxis(storage=storage):
                return storage
            case OpaqueType(text=text):
                raise ValueError(f"elements of type !{text} have no known storage")

    @property
    def size_bytes(self) -> int:
        """Bytes of the dense tensor."""
        return (self.size * self.storage.bits + 7) // 8

    @property
    def uniform(self) -> Uniform:
        """The per-tensor quantization; raises ValueError when the element is not `Uniform`."""
        if not isinstance(self.element, Uniform):
            raise ValueError("this tensor has no per-tensor quantization")
        return self.element

    @property
    def is_quantized(self) -> bool:
        """True if the tensor stores integers with a scale."""
        return isinstance(self.element, (Uniform, UniformPerAxis))

    is_quantised = is_quantized  # until version 0.3

    def shape_only(self) -> TensorType:
        """The same shape as a plain tensor: quantized types become their expressed type, no address."""
        match self.element:
            case Calibrated(expressed=expressed) | Uniform(expressed=expressed) | UniformPerAxis(expressed=expressed):
                return TensorType(self.shape, expressed)
            case element:
                return TensorType(self.shape, element)

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        """The same element with another shape and no address."""
        return TensorType(shape, self.element)

    def with_element(self, element: ElementType) -> TensorType:
        """The same shape with another element and no address."""
        return TensorType(self.shape, element)

    def at(self, encoding: Attribute | None) -> TensorType:
        """The same tensor with an address, or without one."""
        return replace(self, encoding=encoding)


@dataclass(frozen=True, slots=True)
class FunctionType:
    """Operand and result types of a function."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]


Type: TypeAlias = TensorType | NoneType | FunctionType | ScalarType | OpaqueType
Types: TypeAlias = "tuple[TensorType, ...]"


def of_tensor(type: Type) -> Type:
    """The corresponding tensor type: a plain number becomes a tensor without dimensions."""
    return TensorType((), type) if isinstance(type, ScalarType) else type
