"""The network under construction: tensors with their types, and ops with their operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from tpuc.api import ABSENT, F32, ElementType, Op, TensorType, UsageError
from tpuc_ops.arrays import Array
from tpuc_ops.top.input import PIXEL_CHANNELS

Scales: TypeAlias = "float | Sequence[float]"
ZeroPoints: TypeAlias = "int | Sequence[int]"

FLOATS = ("float32", "float16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
DTYPES = (*FLOATS, *INTEGERS)
TENSOR_TYPES = ("neuron", "coeff", None)
T = TypeVar("T")


class LangError(UsageError, ValueError):
    """An invalid call; the message states the function, the reason, and what to do."""


@dataclass(frozen=True)
class Quantization:
    """The meaning of integers: ``(q - zero_point) * scale``; both may have one number per channel, or be unknown."""

    scale: tuple[float, ...] | None = None
    zero_point: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return f"scale {_shown(self.scale)} and zero point {_shown(self.zero_point)}"


class Tensor:
    """A tensor of the network. With data, it is a constant (`is_const`), or an input with example data."""

    def __init__(
        self,
        shape: int | Sequence[int] = (),
        name: str | None = None,
        ttype: str | None = "neuron",
        data: Array | None = None,
        dtype: str = "float32",
        scale: Scales | None = None,
        zero_point: ZeroPoints | None = None,
        *,
        is_const: bool = False,
    ) -> None:
        graph = current_graph("Tensor")
        if ttype not in TENSOR_TYPES:
            raise LangError(f"Tensor: ttype '{ttype}' is not known; use neuron or coeff.")
        extents = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
        if not extents:
            if data is None:
                raise LangError("Tensor: neither shape nor data are given; give one of them.")
            extents = data.shape
        self.shape: tuple[int, ...] = extents
        self.name = graph.new_name(name)
        if min(self.shape, default=1) < 1:
            raise LangError(f"Tensor '{self.name}': extents are at least 1, its shape is {list(self.shape)}.")
        if dtype not in DTYPES:
            raise LangError(f"Tensor '{self.name}': dtype '{dtype}' is not known; use one of {', '.join(DTYPES)}.")
        self.dtype = dtype
        self.is_const = is_const or ttype == "coeff"
        self.data = None if data is None else self._checked(data)
        if self.is_const and data is None:
            raise LangError(f"Tensor '{self.name}': a constant needs data.")
        self.quantization = Quantization()
        self.set_quantization("Tensor", scale, zero_point)
        self.step: Step | None = None
        self.graph = graph
        self.element: ElementType = F32
        self.preprocessing: dict[str, Any] = {}

    def preprocess(
        self,
        mean: Sequence[float] = (0, 0, 0),
        scale: Sequence[float] = (1.0, 1.0, 1.0),
        pixel_format: str = "bgr",
        channel_format: str = "nchw",
        resize_dims: Sequence[int] | None = None,
        keep_aspect_ratio: bool = False,
        keep_ratio_mode: str = "letterbox",
        pad_value: int = 0,
        pad_type: str = "center",
        white_level: float = 4095,
        black_level: float = 112,
    ) -> None:
        """Describe how images become this input. Sensor levels become mean and scale; unusual ones are refused."""
        if pixel_format not in PIXEL_CHANNELS:
            known = ", ".join(PIXEL_CHANNELS)
            raise LangError(f"preprocess: pixel_format '{pixel_format}' is not supported; use one of {known}.")
        if (white_level, black_level) != (4095, 112):
            raise LangError(
                "preprocess: white_level and black_level are not supported; give the black level as `mean` and 1 / "
                "(white "
                "level - black level) as `scale`."
            )
        self.preprocessing = {
            "mean": tuple(mean),
            "scale": tuple(scale),
            "pixel_format": pixel_format,
            "channel_format": channel_format,
            "resize_dims": None if resize_dims is None else tuple(resize_dims),
            "keep_aspect_ratio": keep_aspect_ratio,
            "keep_ratio_mode": keep_ratio_mode,
            "pad_value": pad_value,
            "pad_type": pad_type,
        }

    def rename(self, name: str) -> None:
        """Give the tensor a requested name, and free its former one."""
        new = self.graph.new_name(name)
        self.graph.names.discard(self.name)
        self.name = new

    def _checked(self, data: Array) -> Array:
        if data.size != math.prod(self.shape):
            raise LangError(
                f"Tensor '{self.name}': its data are {list(data.shape)}, its shape is {list(self.shape)}; make them "
                "equal."
            )
        if self.is_integer and not np.array_equal(data, self._within_range(np.rint(data))):
            raise LangError(f"Tensor '{self.name}': its data do not fit {self.dtype}; give integers within its range.")
        return np.ascontiguousarray(data).reshape(self.shape)

    def _within_range(self, data: Array) -> Array:
        limits = np.iinfo(self.dtype)
        return np.clip(data, limits.min, limits.max)

    @property
    def is_integer(self) -> bool:
        """True for integers, with or without a scale."""
        return self.dtype in INTEGERS

    @property
    def scale(self) -> float | tuple[float, ...] | None:
        """The scale, or a list of scales per channel."""
        return _plain(self.quantization.scale)

    @property
    def zero_point(self) -> int | tuple[int, ...] | None:
        """The zero point, or a list of zero points per channel."""
        return _plain(self.quantization.zero_point)

    def set_quantization(self, where: str, scale: Scales | None, zero_point: ZeroPoints | None) -> None:
        """Set the quantization; raises LangError if another one is known already."""
        new = Quantization(_several(scale), _several(zero_point))
        if (new.scale or new.zero_point) and not self.is_integer:
            raise LangError(f"{where}: tensor '{self.name}' is {self.dtype}; scale and zero point are for integers.")
        if new.scale is not None and not all(0 < one < math.inf for one in new.scale):
            raise LangError(f"{where}: scales of tensor '{self.name}' must be above 0, this is {_shown(new.scale)}.")
        if new.zero_point is not None:
            limits = np.iinfo(self.dtype)
            if not all(limits.min <= one <= limits.max for one in new.zero_point):
                raise LangError(
                    f"{where}: the zero point {_shown(new.zero_point)} of tensor '{self.name}' does not fit "
                    f"{self.dtype}."
                )
        known = self.quantization
        for label, old, now in (
            ("scale", known.scale, new.scale),
            ("zero point", known.zero_point, new.zero_point),
        ):
            if old is not None and now is not None and old != now:
                raise LangError(
                    f"{where}: tensor '{self.name}' has the {label} {_shown(old)}, but here it is {_shown(now)}; use "
                    "the same one."
                )
        self.quantization = Quantization(known.scale or new.scale, known.zero_point or new.zero_point)

    def __repr__(self) -> str:
        return f"Tensor('{self.name}', {self.dtype}, {list(self.shape)})"


@dataclass(frozen=True)
class Scalar:
    """A typed number, float32 by default."""

    value: float
    dtype: str | None = None


Operand: TypeAlias = "Tensor | Scalar | float | int"


@dataclass(frozen=True)
class Step:
    """An op with its operands (None if absent) and its results."""

    op: Op
    operands: tuple[Tensor | None, ...]
    results: tuple[Tensor, ...]


@dataclass
class Graph:
    """State shared by all tensors made since `init`."""

    device: str
    names: set[str] = field(default_factory=set[str])
    count: int = 0

    def new_name(self, name: str | None) -> str:
        """Return the given name, or `BMTensor` with the next free number; raises LangError for a name in use."""
        if name is not None:
            if not name or name in self.names:
                raise LangError(f"name '{name}' is {'taken' if name else 'empty'}; give another one, or none.")
            self.names.add(name)
            return name
        while True:
            candidate = f"BMTensor{self.count}"
            self.count += 1
            if candidate not in self.names:
                self.names.add(candidate)
                return candidate


GRAPH: ContextVar[Graph | None] = ContextVar("tpuc_lang_graph", default=None)


def current_graph(where: str) -> Graph:
    """Return the graph of this context; raises LangError outside of init and deinit."""
    graph = GRAPH.get()
    if graph is None:
        raise LangError(f"{where}: there is no network; call tl.init(DEVICE) first.")
    return graph


# Ops


def make(
    where: str,
    op: Op,
    operands: Sequence[Tensor | None],
    name: str | None = None,
    *,
    dtype: str = "float32",
    quantization: Quantization | None = None,
    shapes: Sequence[Sequence[int]] | None = None,
) -> list[Tensor]:
    """Return the results of an op; shapes are inferred unless given. Raises LangError if operands do not fit."""
    graph = current_graph(where)
    for tensor in operands:
        if tensor is not None and tensor.graph is not graph:
            raise LangError(f"{where}: tensor '{tensor.name}' belongs to another network; build it after tl.init.")
    types = tuple(ABSENT if tensor is None else TensorType(tensor.shape, tensor.element) for tensor in operands)
    try:
        inferred = op.infer(types)
    except ValueError as error:
        raise LangError(f"{where}: {str(error).rstrip('.')}.") from error
    if shapes is None:
        assert inferred is not None
        shapes = [type.dims for type in inferred]
    names = [name, *(f"{name}_{index}" if name else None for index in range(1, len(shapes)))]
    results = [_result(shape, one, dtype) for shape, one in zip(shapes, names, strict=True)]
    step = Step(op, tuple(operands), tuple(results))
    for result in results:
        result.step = step
        if quantization is not None and result.is_integer:
            result.quantization = quantization
    return results


def _result(shape: Sequence[int], name: str | None, dtype: str) -> Tensor:
    tensor = Tensor(tuple(shape) or 1, name, dtype=dtype)
    tensor.shape = tuple(shape)
    return tensor


def make_one(where: str, op: Op, operands: Sequence[Tensor | None], name: str | None = None, **more: Any) -> Tensor:
    """As `make`, for an op with one result."""
    return make(where, op, operands, name, **more)[0]


def floats_only(where: str, *tensors: Tensor | None) -> str:
    """Return the common float type of the operands; raises LangError for integers."""
    present = [tensor for tensor in tensors if tensor is not None]
    for tensor in present:
        if tensor.is_integer:
            raise LangError(
                f"{where}: tensor '{tensor.name}' is {tensor.dtype}, and this computes floats; use tl.dequantize first."
            )
    return present[0].dtype


def same_meaning(where: str, tensors: Sequence[Tensor]) -> Quantization:
    """Return the common quantization; raises LangError if two operands differ in dtype, scale, or zero point."""
    first, *others = tensors
    for other in others:
        if other.dtype != first.dtype:
            raise LangError(
                f"{where}: tensor '{first.name}' is {first.dtype} and '{other.name}' is {other.dtype}; cast one of "
                "them."
            )
        if other.quantization != first.quantization:
            raise LangError(
                f"{where}: tensor '{first.name}' has {first.quantization}, '{other.name}' has {other.quantization}; "
                "requantize one of them."
            )
    return first.quantization


def constant(array: Array, name: str | None = None, dtype: str = "float32") -> Tensor:
    """Create an internal constant."""
    return Tensor(array.shape, name, data=np.asarray(array, np.float32), dtype=dtype, is_const=True)


def number_of(operand: Scalar | float) -> float:
    """Return the number of a number or a Scalar."""
    return float(operand.value if isinstance(operand, Scalar) else operand)


def limits_of(dtype: str) -> tuple[int, int]:
    """Return the smallest and the largest number of an integer type."""
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def once(where: str, function: Callable[[], T]) -> T:
    """Call the function; a TypeError or ValueError becomes a LangError of this call."""
    try:
        return function()
    except (TypeError, ValueError) as error:
        raise LangError(f"{where}: {str(error).rstrip('.')}.") from error


def _several(value: Any) -> tuple[Any, ...] | None:
    return None if value is None else tuple(np.atleast_1d(value).tolist())


def _plain(values: tuple[Any, ...] | None) -> Any:
    return values[0] if values is not None and len(values) == 1 else values


def _shown(values: tuple[Any, ...] | None) -> str:
    return "none" if values is None else str(_plain(values))
