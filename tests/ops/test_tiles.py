"""What tiles read: computing a tile from its box alone gives the tile of the whole result."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tpuc.api import ABSENT, F32, Box, Node, Op, TensorType, Tile
from tpuc_chip_parts.tiles import Product, kept_part, padded_box
from tpuc_ops import tpu
from tpuc_testing import uniform

from tests.families import each

Array = npt.NDArray[Any]


def _node(op: Op, *dims: tuple[int, ...], result: tuple[int, ...]) -> Node:
    types = tuple(TensorType(one, F32) for one in dims)
    operands = (*types, ABSENT) if len(types) == 2 else types
    return Node(op, operands, (TensorType(result, F32),), "node")


def _tile(rows: tuple[int, int], columns: tuple[int, int]) -> Tile:
    return Tile(("n", "c", "h", "w"), (0, 0, rows[0], columns[0]), (1, 1, rows[1], columns[1]))


def _inserted(x: Array, inserts: tuple[int, int]) -> Array:
    """Zeros between rows and columns."""
    result = np.zeros(tuple((size - 1) * (gap + 1) + 1 for size, gap in zip(x.shape, inserts, strict=True)), x.dtype)
    result[:: inserts[0] + 1, :: inserts[1] + 1] = x
    return result


def _correlated(x: Array, kernel: Array, product: Product, size: tuple[int, int]) -> Array:
    """`kernel` at every place of `x`, `size` places from the first."""
    (sh, sw), (dh, dw) = product.strides, product.dilations
    result = np.zeros(size, np.float64)
    for r in range(kernel.shape[0]):
        for c in range(kernel.shape[1]):
            rows, columns = (
                slice(r * dh, r * dh + (size[0] - 1) * sh + 1, sh),
                slice(c * dw, c * dw + (size[1] - 1) * sw + 1, sw),
            )
            result += kernel[r, c] * x[rows, columns]
    return result


CONV: dict[str, Any] = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 2, 1), "dilations": (1, 2)}
DECONV: dict[str, Any] = {"kernel_shape": (4, 3), "strides": (3, 2), "pads": (1, 2, 2, 0), "dilations": (1, 2)}
PRODUCTS = {
    "window": Product.of_convolution(
        _node(tpu.Conv2D(**CONV), (1, 1, 9, 8), (1, 1, 3, 2), result=(1, 1, 5, 7)),
    ),
    "transposed": Product.of_transposed(
        _node(tpu.Deconv(**DECONV), (1, 1, 5, 6), (1, 1, 4, 3), result=(1, 1, 13, 13)),
    ),
    "transposed_by_one": Product.of_transposed(
        _node(tpu.Deconv(kernel_shape=(3, 3), pads=(1, 1, 1, 1)), (1, 1, 5, 6), (1, 1, 3, 3), result=(1, 1, 5, 6)),
    ),
}
TILES = [((0, 1), (0, 1)), ((0, 3), (2, 5)), ((2, 5), (1, 6)), ((4, 5), (3, 6))]


@each(("rows", "columns"), TILES)
@each("name", PRODUCTS)
def test_the_box_of_a_tile_holds_all_that_its_windows_see(
    name: str, rows: tuple[int, int], columns: tuple[int, int]
) -> None:
    product = PRODUCTS[name]
    x, kernel = uniform(*product.input.shape[2:], seed=1), uniform(*product.kernel, seed=2)
    top, left, bottom, right = product.pads
    # A margin of zeros: what a command sees beyond its part is never looked at.
    whole = np.pad(_inserted(x, product.inserts), ((top, bottom + 9), (left, right + 9)))
    expected = _correlated(whole, kernel, product, (product.output.shape[2], product.output.shape[3]))
    box = product.box(_tile(rows, columns), (0, 1))
    (_, _, h, w), (_, _, height, width) = box.start, box.shape
    assert h + height <= x.shape[0]
    assert w + width <= x.shape[1]
    part = _inserted(x[h : h + height, w : w + width], product.inserts)
    above, before, below, behind = box.padding
    part = np.pad(part, ((above, below), (before, behind)))
    found = _correlated(part, kernel, product, (rows[1] - rows[0], columns[1] - columns[0]))
    # The same products in the same order.
    assert np.array_equal(found, expected[rows[0] : rows[1], columns[0] : columns[1]])


@each(("rows", "columns"), [((0, 2), (0, 9)), ((1, 4), (2, 5)), ((0, 9), (0, 9)), ((7, 9), (0, 9)), ((3, 4), (0, 3))])
def test_a_tile_of_a_pad_is_its_value_and_the_kept_part(rows: tuple[int, int], columns: tuple[int, int]) -> None:
    op = tpu.Pad(paddings=(0, 0, 2, 3, 0, 0, 3, 1), val=0.5)
    x = uniform(1, 1, 4, 5)
    node, tile = _node(op, x.shape, result=(1, 1, 9, 9)), _tile(rows, columns)
    expected = np.pad(x[0, 0], ((2, 3), (3, 1)), constant_values=0.5)[slice(*rows), slice(*columns)]
    box = padded_box(node, tile)
    assert min(box.shape) >= 1
    part = _taken(x, box)
    found = np.full(expected.shape, np.float32(0.5))
    kept = kept_part(node, tile)
    if kept is not None:
        (_, _, h, w), shape = kept
        assert shape == box.shape
        found[h : h + shape[2], w : w + shape[3]] = part
    assert np.array_equal(found, expected)


def _taken(x: Array, box: Box) -> Array:
    (_, _, h, w), (_, _, height, width) = box.start, box.shape
    part = x[0, 0, h : h + height, w : w + width]
    assert part.shape == (height, width)
    return part
