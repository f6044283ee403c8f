"""Convert raw sensor values (12-bit Bayer mosaics) to channels, in the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, reduce

import numpy as np
from tpuc.api import F32, ElementType, Node, Op, Operation, ScalarType, TensorType, Uniform, Value
from tpuc.api.boundary import preprocess_of
from tpuc_driver.api.host import LOW_BITS, SENSOR_FORMATS, SENSOR_VALUES
from tpuc_ops import tpu
from tpuc_ops.arrays import Array, as_float, stored

from tpuc_lower.boundary.building import PIXELS
from tpuc_lower.boundary.images import ImageBytes
from tpuc_lower.boundary.sensor_tables import HIGH_STEPS, sum_of_tables

LOWS = 1 << LOW_BITS
_STEPS = Uniform(ScalarType("i8"), F32, 1.0)
"""High bytes of terms."""
_MOVES = (0.0, 1 / 16, 1 / 32, 1 / 8)
"""Of a step of the sensor."""


class SensorFrames:
    """Computes an image input's values from frames `[n, 1, 2 h, 3 w]`.

    Two rows of a frame become one channel, so that every lane has work. Each network channel is computed from two maps
    `[n, h, 1, w]`: bytes with the upper bits of its values, and bytes with the lower bits of these and of their
    neighbors.
    """

    def __init__(self, image: ImageBytes) -> None:
        self._image, self._build = image, image.build
        self._places = SENSOR_FORMATS[image.format.pixels]
        preprocess = preprocess_of(image.old, image.dims)
        self._mean, self._scale = (
            np.resize(np.array(numbers, np.float32), 4) for numbers in (preprocess.mean, preprocess.scale)
        )
        self._maps: dict[tuple[int, int], Value] = {}
        self._tables: dict[tuple[bytes, ElementType], Value] = {}
        self._normalized = preprocess.normalize(np.arange(SENSOR_VALUES).repeat(4).reshape(SENSOR_VALUES, 4))

    def floats(self) -> Value:
        """The float32 values: sensor values minus mean, times scale, rounded after each step."""
        return self._joined(self._float)

    def stored(self, cast: Operation) -> Value:
        """The result of `cast` on them."""
        element = cast.result.tensor.element
        if self._image.target.has_f32:
            return self._joined(lambda index: self._do(cast.op, [self._float(index)], element, "stored"))
        type = TensorType(self._normalized.shape, F32)
        node = Node(cast.op, (type,), (TensorType(type.dims, element),), cast.name)
        entries = cast.op.evaluate(node, [self._normalized])[0]
        return self._joined(lambda index: self._of_tables(index, entries[:, index], element))

    def _joined(self, channel: Callable[[int], Value]) -> Value:
        planes: list[Value] = []
        for index in range(len(self._places)):
            value = channel(index)
            n, rows, _, columns = value.tensor.dims
            planes.append(self._reshaped(value, (n, 1, rows, columns), "plane"))
        return self._image.from_planes(planes)

    def _float(self, index: int) -> Value:
        """One float32 channel."""
        low = self._look_up(self._low(index), self._by_lower(index, np.arange(LOWS, dtype=np.uint8)), PIXELS)
        upper, lower = (self._do(tpu.Cast(), [part], F32, "f32") for part in (self._high(index), low))
        upper = self._do(tpu.MulConst(const_val=float(LOWS)), [upper], F32, "upper")
        value = self._do(tpu.Add(), [upper, lower], F32, "value")
        if self._mean[index]:
            value = self._do(tpu.AddConst(const_val=-float(self._mean[index])), [value], F32, "mean")
        if self._scale[index] != 1:
            value = self._do(tpu.MulConst(const_val=float(self._scale[index])), [value], F32, "scale")
        return value

    def _of_tables(self, index: int, entries: Array, element: ElementType) -> Value:
        """One channel in which sensor value `x` becomes entry `x`: a sum of tables, or one table of the upper bits for
        each pattern of the lower ones.
        """
        if not isinstance(element, Uniform):
            return self._float_sum(index, entries, element) or self._chosen(index, entries, element)
        found = sum_of_tables(entries, element.zero_point)
        if found is None:
            return self._chosen_bytes(index, entries, element)
        high = self._look_up(self._high(index), found.high, _STEPS)
        rest = self._look_up(self._high(index), found.rest, PIXELS)
        lower = self._look_up(self._low(index), self._by_lower(index, found.lower.astype(np.uint8)), PIXELS)
        op = tpu.Add(multipliers=(HIGH_STEPS, 1, 1), rshifts=(found.shift,))
        return self._do(op, [high, rest, lower], element, "sum")

    def _float_sum(self, index: int, entries: Array, element: ElementType) -> Value | None:
        """The sum of two floats, rounded once to even; None where that does not equal every entry.

        A term takes from the other what moves halves to the side where the entries have them.
        """
        type, factor = TensorType((SENSOR_VALUES,), element), self._scale[index]
        for more in (np.float32(part) * factor for part in _MOVES):
            upper = stored(self._normalized[::LOWS, index] - more, type)
            lower = stored(np.arange(LOWS, dtype=np.float32) * factor + more, type)
            total = stored((as_float(upper)[:, None] + as_float(lower)).reshape(-1), type)
            if np.array_equal(total, entries):
                break
        else:
            return None
        terms = [
            self._look_up(self._high(index), upper, element),
            self._look_up(self._low(index), self._by_lower(index, lower), element),
        ]
        return self._do(tpu.Add(), terms, element, "sum")

    def _chosen(self, index: int, entries: Array, element: ElementType) -> Value:
        """The entries for each pattern of the lower bits, times 1 where a value has that pattern, else times 0."""
        one = stored(np.ones((), np.float32), TensorType((), element))
        parts: list[Value] = []
        for low in range(LOWS):
            mask = self._by_lower(index, np.where(np.arange(LOWS) == low, one, np.zeros_like(one)))
            factors = [
                self._look_up(self._high(index), entries[low::LOWS], element),
                self._look_up(self._low(index), mask, element),
            ]
            parts.append(self._do(tpu.Mul(), factors, element, "part"))
        return reduce(lambda total, part: self._do(tpu.Add(), [total, part], element, "sum"), parts)

    def _chosen_bytes(self, index: int, entries: Array, element: Uniform) -> Value:
        """The same with bytes: entries from the smallest one on, less 256 elsewhere."""
        smallest = np.iinfo(entries.dtype).min
        parts: list[Value] = []
        for low in range(LOWS):
            mask = self._by_lower(index, np.where(np.arange(LOWS) == low, 0, -128).astype(np.int8))
            from_zero = (entries[low::LOWS].astype(np.int64) - smallest).astype(np.uint8)
            terms = [self._look_up(self._high(index), from_zero, PIXELS), self._look_up(self._low(index), mask, _STEPS)]
            parts.append(self._do(tpu.Add(multipliers=(1, 2), rshifts=(0,)), terms, PIXELS, "part"))
        add = tpu.Add(multipliers=(1, 1), rshifts=(0,))
        total = reduce(lambda total, part: self._do(add, [total, part], PIXELS, "sum"), parts)
        return self._look_up(total, (np.arange(256) + smallest).astype(entries.dtype), element)

    def _by_lower(self, index: int, entries: Array) -> Array:
        """A table over bytes that hold the lower bits of two values, from entries for this channel's."""
        return entries[np.arange(256) >> LOW_BITS * self._places[index][1] & LOWS - 1]

    def _high(self, index: int) -> Value:
        row, column = self._places[index]
        return self._map(row, column)

    def _low(self, index: int) -> Value:
        return self._map(self._places[index][0], 2)

    def _map(self, row: int, byte: int) -> Value:
        """The center crop of one of the six maps of 2x2 squares: one byte of three in one of two rows."""
        if (row, byte) not in self._maps:
            line, columns = self._lines[row], self._image.dims[self._image.layout.index("w")]
            first = (line.tensor.dims[3] // 3 - columns) // 2 * 3 + byte
            dims = (*line.tensor.dims[:3], columns)
            self._maps[row, byte] = self._part(line, (0, 0, 0, first), dims, 3)
        return self._maps[row, byte]

    @cached_property
    def _lines(self) -> tuple[Value, Value]:
        """`[n, h, 1, 3 w]` each: the upper and the lower rows of squares in the center crop of the frame."""
        raw = self._image.raw
        n, _, height, width = raw.tensor.dims
        rows = self._image.dims[self._image.layout.index("h")]
        both = self._reshaped(raw, (n, height // 2, 2, width), "rows")
        top = (height // 2 - rows) // 2
        upper, lower = (self._part(both, (0, top, row, 0), (n, rows, 1, width)) for row in range(2))
        return upper, lower

    def _part(self, value: Value, offset: tuple[int, ...], dims: tuple[int, ...], step: int = 1) -> Value:
        """A slice from `offset` on; every `step`-th column."""
        steps = (1, 1, 1, step)
        ends = tuple(start + (size - 1) * pace + 1 for start, size, pace in zip(offset, dims, steps, strict=True))
        op = tpu.Slice(offset=offset, steps=steps, ends=ends)
        return self._build.op(op, [value], TensorType(dims, PIXELS), "map")

    def _look_up(self, value: Value, entries: Array, element: ElementType) -> Value:
        """A table look-up; `entries`: one for each byte."""
        bits = np.ascontiguousarray(entries.view(np.uint16) if entries.dtype.itemsize > 1 else entries)
        key = (bits.tobytes(), element)
        if key not in self._tables:
            self._tables[key] = self._build.weight("table", bits.reshape(1, 1, 1, 256), element)
        return self._do(tpu.Lut(), [value, self._tables[key]], element, "lut")

    def _do(self, op: Op, operands: Sequence[Value], element: ElementType, what: str) -> Value:
        return self._build.op(op, operands, TensorType(operands[0].tensor.dims, element), what)

    def _reshaped(self, value: Value, dims: tuple[int, ...], what: str) -> Value:
        result = TensorType(dims, value.tensor.element)
        return self._build.op(tpu.Reshape(shape=dims), [value], result, what)
