"""Parse types."""

from __future__ import annotations

import re
from abc import abstractmethod

from tpuc.ir.attributes import Attribute, IntegerAttr
from tpuc.ir.text.numbers import parse_hexadecimal
from tpuc.ir.text.scanner import Scanner
from tpuc.ir.types import (
    DYNAMIC,
    Calibrated,
    ElementType,
    FunctionType,
    NoneType,
    OpaqueType,
    ScalarType,
    TensorType,
    Type,
    Uniform,
    UniformPerAxis,
)

_I64 = ScalarType("i64")

SCALAR = r"(?:[su]?i\d+|f8E\w+|f16|bf16|tf32|f32|f64|f80|f128|index)"
"""Names of plain element types."""

# A whole type without looking inside: three levels of <> are enough for every quantized tensor. Only ever the key of
# a cache: what is inside is parsed when it is new.
WHOLE_TYPE = r"(?:[!]?[a-zA-Z][\w.]*+(?:<[^<>]*+(?:<[^<>]*+(?:<[^<>]*+>[^<>]*+)*+>[^<>]*+)*+>)?+)"

_SCALAR = re.compile(SCALAR + r"(?![\w.])")
_WHOLE_TYPE = re.compile(WHOLE_TYPE)
_DIMENSION = re.compile(r"(\?|\d+)[ \t]*x")
_UNRANKED = re.compile(r"\*[ \t]*x")
_FLOAT = re.compile(r"-?(?:\d+\.\d*(?:[eE][+-]?\d+)?|0x[0-9A-Fa-f]+|\d+)")
_STORAGE = re.compile(r"[iu]\d+")
_USUAL_TENSOR = re.compile(
    rf"tensor<((?:\d++x)*+)({SCALAR}|!quant\.\w++<[^<>]*+(?:<[^<>]*+>[^<>]*+)*+>)(?:, (\d++) : i64)?+>"
)
_USUAL_UNIFORM = re.compile(r"!quant\.uniform<([iu]\d++):(f32), (\d++\.\d*+(?:[eE][+-]?\d++)?+)(?::(-?\d++))?+>")
_QUOTED_TYPE = re.compile(r"[A-Za-z_][\w$.]*+")
_BUILTIN_KEPT = re.compile(r"(?:tuple|vector|memref|complex)(?=<)")


class TypeParser(Scanner):
    """Parses types. Equal texts give the same object."""

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text, source)
        self.types: dict[str, Type] = {}
        self._elements: dict[str, ElementType] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}

    @abstractmethod
    def attribute(self) -> Attribute:
        """The next attribute (the encoding of a tensor)."""

    @abstractmethod
    def type_alias(self, name: str, pos: int) -> Type | ElementType:
        """The type named `!name`."""

    def aliased_type(self) -> Type | ElementType:
        """The type after `!name =`, which may also be the element type of a tensor."""
        return self._dialect_type() if self.sees("!") else self.type()

    def type(self) -> Type:
        """The type that comes next."""
        whole = _WHOLE_TYPE.match(self.text, self.skip())
        if whole is None:
            return self._parse_type()
        known = self.types.get(whole.group())
        if known is not None:
            self.pos = whole.end()
            return known
        result = self._usual_tensor() or self._parse_type()
        if self.pos == whole.end():
            self.types[whole.group()] = result
        return result

    def type_list(self) -> tuple[Type, ...]:
        """`(type, type)`, or one bare type."""
        if not self.sees("("):
            return (self.type(),)
        start = self.pos
        self.accept("(")
        types: list[Type] = []
        if not self.accept(")"):
            types.append(self.type())
            while self.accept(","):
                types.append(self.type())
            self.expect(")", " after the types")
        end = self.pos
        if self.sees("->"):  # it was a function type
            self.pos = start
            return (self.type(),)
        self.pos = end
        return tuple(types)

    def function_type(self) -> FunctionType:
        """`(types) -> types`."""
        self.expect("(", " before the operand types")
        inputs: list[Type] = []
        if not self.accept(")"):
            inputs.append(self.type())
            while self.accept(","):
                inputs.append(self.type())
            self.expect(")", " after the operand types")
        self.expect("->", " between operand and result types")
        return FunctionType(tuple(inputs), self.type_list())

    def _parse_type(self) -> Type:
        if self.accept("tensor<"):
            return self._tensor()
        if (scalar := self.take(_SCALAR)) is not None:
            return ScalarType(scalar.group())
        if self.accept_word("none"):
            return NoneType()
        if self.sees("("):
            return self.function_type()
        if (kept := self.take(_BUILTIN_KEPT)) is not None:
            return OpaqueType(kept.group() + self.balanced("this type"))
        if self.sees("!"):
            return self._foreign_type()
        return self.fail(f"expected a type, found {self.shown()}")

    def _foreign_type(self) -> Type:
        start = self.pos
        element = self._dialect_type()
        if isinstance(element, (ScalarType, OpaqueType)):
            return element
        if isinstance(element, (Calibrated, Uniform, UniformPerAxis)):
            return OpaqueType(self.text[start + 1 : self.pos])  # a lone quantized scalar has no use of its own
        return element

    def _usual_tensor(self) -> TensorType | None:
        """Fast path for a ranked static tensor with or without an address."""
        match = _USUAL_TENSOR.match(self.text, self.pos)
        if match is None:
            return None
        dims, element_text, address = match.groups()
        shape = self._shapes.get(dims)
        if shape is None:
            shape = self._shapes[dims] = tuple(map(int, dims.split("x")[:-1]))
        element = self._elements.get(element_text)
        if element is None:
            self.pos = match.start(2)
            element = self._elements[element_text] = self._usual_uniform() or self._element()
        self.pos = match.end()
        return TensorType(shape, element, None if address is None else IntegerAttr(int(address), _I64))

    def _usual_uniform(self) -> Uniform | None:
        match = _USUAL_UNIFORM.match(self.text, self.pos)
        if match is None:
            return None
        storage, expressed, scale, zero_point = match.groups()
        return Uniform(ScalarType(storage), ScalarType(expressed), float(scale), int(zero_point or 0))

    def _tensor(self) -> TensorType:
        shape: list[int] | None = []
        if self.take(_UNRANKED):
            shape = None
        else:
            while (dimension := self.take(_DIMENSION)) is not None:
                shape.append(DYNAMIC if dimension.group(1) == "?" else int(dimension.group(1)))
        element = self._element()
        encoding = self.attribute() if self.accept(",") else None
        self.expect(">", " after the tensor type")
        return TensorType(None if shape is None else tuple(shape), element, encoding)

    def _element(self) -> ElementType:
        if (scalar := self.take(_SCALAR)) is not None:
            return ScalarType(scalar.group())
        if (kept := self.take(_BUILTIN_KEPT)) is not None:
            return OpaqueType(kept.group() + self.balanced("this element type"))
        if self.sees("!"):
            start = self.pos
            element = self._dialect_type()
            if not isinstance(element, (TensorType, NoneType, FunctionType)):
                return element
            self.fail("a tensor cannot hold values of this type", start)
        return self.fail(f"expected the element type of a tensor such as f32, found {self.shown()}")

    def _dialect_type(self) -> Type | ElementType:
        start = self.pos
        self.expect("!")
        name = self.take(_QUOTED_TYPE)
        if name is None:
            return self.fail("expected the name of a type after '!'")
        match name.group():
            case "quant.calibrated":
                return self._calibrated()
            case "quant.uniform":
                return self._uniform()
            case text if self.text.startswith("<", self.pos):
                return OpaqueType(text + self.balanced(f"the type !{text}"))
            case text if "." in text:
                return OpaqueType(text)
            case text:
                return self.type_alias(text, start)

    def _scalar(self, what: str) -> ScalarType:
        match = self.take(_SCALAR)
        return ScalarType(match.group()) if match else self.fail(f"expected {what}, found {self.shown()}")

    def plain_float(self) -> float:
        """A float without type, as in quantized types."""
        match = self.take(_FLOAT)
        if match is None:
            return self.fail(f"expected a number, found {self.shown()}")
        text = match.group()
        if text.startswith("0x"):
            try:
                return parse_hexadecimal(text, "f64")
            except ValueError as error:
                self.fail(str(error), match.start())
        return float(text)

    def _calibrated(self) -> Calibrated:
        self.expect("<")
        expressed = self._scalar("the expressed type such as f32")
        self.expect("<")
        minimum = self.plain_float()
        self.expect(":", " between minimum and maximum")
        maximum = self.plain_float()
        self.expect(">")
        self.expect(">")
        return Calibrated(expressed, minimum, maximum)

    def _uniform(self) -> Uniform | UniformPerAxis:
        self.expect("<")
        storage = self.take(_STORAGE)
        if storage is None:
            self.fail(f"expected the storage type such as i8 or u8, found {self.shown()}")
        low = high = None
        if self.accept("<"):
            low = self.integer("the smallest stored integer")
            self.expect(":", " between the storage bounds")
            high = self.integer("the largest stored integer")
            self.expect(">")
            low, high = narrower_bounds(storage.group(), low, high)
        self.expect(":", " before the expressed type")
        expressed = self._scalar("the expressed type such as f32")
        axis = self.integer("the quantized axis") if self.accept(":") else None
        self.expect(",", " before the scale")
        stored = ScalarType(storage.group())
        if axis is None:
            scale, zero_point = self._scale()
            result: Uniform | UniformPerAxis = Uniform(stored, expressed, scale, zero_point, low, high)
        else:
            self.expect("{", " before the scales of an axis")
            pairs = [self._scale()]
            while self.accept(","):
                pairs.append(self._scale())
            self.expect("}", " after the scales of an axis")
            scales, zero_points = zip(*pairs, strict=True)
            result = UniformPerAxis(stored, expressed, axis, scales, zero_points, low, high)
        self.expect(">")
        return result

    def _scale(self) -> tuple[float, int]:
        scale = self.plain_float()
        return scale, self.integer("the zero point") if self.accept(":") else 0


def narrower_bounds(storage: str, low: int | None, high: int | None) -> tuple[int | None, int | None]:
    """Storage bounds, both None when they equal those of the storage type, which MLIR then omits."""
    bounds = Uniform(ScalarType(storage), ScalarType("f32"), 1.0, 0, low, high).bounds
    return (None, None) if bounds == Uniform(ScalarType(storage), ScalarType("f32"), 1.0).bounds else bounds
