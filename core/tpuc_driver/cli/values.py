"""Parse option values (shapes, numbers, names, modes) from the command line or tpuc.toml."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import click

if TYPE_CHECKING:
    _ParamType: TypeAlias = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # generic from click 8.4 on

LARGEST = 2**31 - 1
"""Largest accepted integer: no network is larger."""

Shapes: TypeAlias = tuple[tuple[int, ...], ...]


class ListedType(_ParamType):
    """Comma-separated values, optionally in brackets. A list in tpuc.toml needs no commas."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The values as a tuple."""
        if isinstance(value, tuple):
            return cast("tuple[Any, ...]", value)
        parts = self.parts(value)
        try:
            return tuple(self.one(part) for part in parts)
        except (ValueError, TypeError):
            self.fail(f"{value!r} is not {self.described}.", param, ctx)

    described = "a list"

    def parts(self, value: Any) -> Sequence[Any]:
        """The parts of the text."""
        if not isinstance(value, str):
            return cast("list[Any]", value) if isinstance(value, list) else [value]
        text = value.strip().removeprefix("[").removesuffix("]")
        return [part.strip() for part in text.split(",") if part.strip()]

    def one(self, part: Any) -> Any:
        """One value."""
        return part


class WordsType(ListedType):
    """`TopK,GatherND`."""

    name = "words"
    described = "a list of words"

    def one(self, part: Any) -> str:
        """One word."""
        if not isinstance(part, str):
            raise TypeError
        return part


class NumbersType(ListedType):
    """`103.9,116.8,123.7`."""

    name = "numbers"
    described = "a list of numbers such as 0.9,0.7"

    def one(self, part: Any) -> float:
        """One finite number."""
        return finite(part)


class IntegersType(ListedType):
    """`224,224`."""

    name = "integers"
    described = "a list of whole numbers such as 224,224"

    def one(self, part: Any) -> int:
        """One whole number."""
        return int(part)


class CountsType(IntegersType):
    """`1,4`."""

    described = "a list of whole numbers from 1 such as 1,4"

    def one(self, part: Any) -> int:
        """One number of samples."""
        number = super().one(part)
        if not 0 < number <= LARGEST:
            raise ValueError
        return number


class _BetweenCommas(ListedType):
    """Comma-separated values that may contain brackets."""

    def parts(self, value: Any) -> Sequence[Any]:
        """The parts between the commas."""
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return super().parts(value)


class NamesType(_BetweenCommas):
    """`conv_1,relu_7`."""

    name = "names"

    def one(self, part: Any) -> str:
        """One name."""
        return str(part)


class PathsType(_BetweenCommas):
    """`a.npy,b.npy`."""

    name = "files"

    def one(self, part: Any) -> Path:
        """One path."""
        return Path(part)


class PairType(_ParamType):
    """`NAME=VALUE`; the name may contain `=`, the value may not."""

    name = "pair"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Name and value."""
        if isinstance(value, tuple):
            return cast("tuple[str, str]", value)
        name, equals, text = str(value).rpartition("=")
        if not (equals and name.strip() and text.strip()):
            self.fail(f"{value!r} is not NAME=VALUE.", param, ctx)
        return name.strip(), text.strip()


class ShapesType(_ParamType):
    """`[[1,3,224,224],[1,10]]`; the outer brackets may be left out for a single input."""

    name = "shapes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Shapes:
        """The shapes, one per input."""
        if isinstance(value, tuple):
            return cast("Shapes", value)
        text = re.sub(r"\s", "", str(value))
        shape = r"\d+(?:,\d+)*"
        if not re.fullmatch(rf"\[?(?:\[(?:{shape})?\],?)+\]?|{shape}|\[{shape}\]|\[\]", text):
            self.fail(f"{value!r} is not a list of shapes such as [[1,3,224,224]].", param, ctx)
        # In outer brackets, [] is the shape of a single number; alone it is a list of no shapes.
        found = re.findall(rf"{shape}|(?<=\[)(?=\])", text) if text != "[]" else []
        if re.search(r"\d{20}", text):
            self.fail(f"it has an extent above {LARGEST}.", param, ctx)
        result = tuple(tuple(int(extent) for extent in one.split(",") if extent) for one in found)
        if any(extent < 1 for one in result for extent in one):
            self.fail(f"{value!r} has an extent below 1; every extent must be given.", param, ctx)
        if any(extent > LARGEST for one in result for extent in one):
            self.fail(f"{value!r} has an extent above {LARGEST}.", param, ctx)
        return result


class ModeType(_ParamType):
    """A quantization mode; upper case and `_` are accepted (`INT8`, `int8_asym`)."""

    name = "mode"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The mode in the chips' spelling."""
        return str(value).strip().lower().replace("_", "-")


class NumberType(_ParamType):
    """A finite number."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        try:
            return finite(value)
        except (ValueError, TypeError):
            self.fail(f"{value!r} is not a number such as 0.9.", param, ctx)


def finite(text: Any) -> float:
    """The number in a text; raises ValueError also for infinities and NaN."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not a number")
    return number


class SampleSetType(_ParamType):
    """`faces/`, or `faces/=3`."""

    name = "samples"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The data set."""
        from tpuc_driver.data.sets import SampleSet

        return SampleSet.of_text(value) if isinstance(value, str) else value


class WholeType(click.IntRange):
    """An integer that is at least `min`."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        found = int(super().convert(value, param, ctx))
        if found > LARGEST:  # the help need not say it
            self.fail(f"{found} is not in the range {self.min}<=x<={LARGEST}.", param, ctx)
        return found


class OutputType(click.Path):
    """An output file, which must not be an input of the same command."""

    name = "file"


NUMBER = NumberType()
NUMBERS = NumbersType()
INTEGERS = IntegersType()
COUNTS = CountsType()
WORDS = WordsType()
NAMES = NamesType()
PATHS = PathsType()
PAIR = PairType()
SHAPES = ShapesType()
MODE = ModeType()
SAMPLES = SampleSetType()
FILE = click.Path(path_type=Path)  # whether it is there is the operating system's answer, not the command line's
OUTPUT = OutputType(path_type=Path)
COUNT, POSITIVE = WholeType(min=0), WholeType(min=1)
EMPTY: tuple[Any, ...] = ()
