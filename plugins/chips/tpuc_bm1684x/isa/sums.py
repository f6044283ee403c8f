"""Float sums of products with the order and rounding of the vendor's functional model.

The model uses two orders (README, "Sums of floats"). *Alternating*: terms at even and at odd positions are accumulated
one by one in two totals, which are added at the end. *Aligned*: up to 32 products of 16-bit floats are truncated
(towards zero) 24 binary places below the largest one and summed exactly. This block sum is rounded to f32 once, and
block sums are added to the total in f32.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tpuc_bm1684x.isa.elementwise import flush, keep_sign
from tpuc_bm1684x.isa.types import Array

BLOCK_TERMS = 32
"""Products in one aligned sum."""
_PLACES = 24
"""Binary places that an aligned sum keeps below the leading bit of the largest product."""
_SMALLEST_BITS = 26
"""Biased f32 exponent below which products may be denormal, or the scale may not be a float."""
_EPSILON = 2.0**-24
"""Largest relative error of one rounding to f32."""
_TILE_TERMS = 1 << 17
"""Products computed at a time in the exact sum, so that they stay in the cache."""
_NAN = np.array(0xFFC00000, np.uint32).view(np.float32)
"""Result of an invalid operation on the model's host."""


# -- alternating ------------------------------------------------------------------------------------------------------


def alternating_sum(
    pairs: Iterable[tuple[Array, Array]], starts: tuple[Array, Array] | None, kind: np.dtype[Any], plain: bool
) -> Array:
    """Alternating sum of products of whole arrays, each step rounded to `kind`; `starts` initializes the two totals.

    `plain`: no denormals can occur (see `without_denormals`).
    """
    totals: list[Array] = [] if starts is None else [start.astype(kind) for start in starts]
    step = _same if plain or kind == np.float16 else flush
    for place, (left, right) in enumerate(pairs):
        product = left.astype(np.float32, copy=False) * right.astype(np.float32, copy=False)
        term = step(product.astype(kind, copy=False))
        if len(totals) < 2:
            totals.append(term)
        else:
            totals[place & 1] = step(_add(totals[place & 1], term, kind))
    return totals[0] if len(totals) == 1 else step(_add(totals[0], totals[1], kind))


def _same(values: Array) -> Array:
    return values


def _add(left: Array, right: Array, kind: np.dtype[Any]) -> Array:
    return (left.astype(np.float32, copy=False) + right.astype(np.float32, copy=False)).astype(kind, copy=False)


def without_denormals(left: Array, right: Array, *starts: Array) -> bool:
    """True when no product, and no sum that starts with `starts`, can be denormal.

    When products and starts are at least 2**-80, every value is a multiple of 2**-103.
    """
    low, other, *more = (
        float(np.abs(values).min(initial=np.inf, where=values != 0)) for values in (left, right, *starts)
    )
    return min(low * other, *more, 1.0) >= 2.0**-80


@np.errstate(all="ignore")
def alternating_matmul(left: Array, right: Array, bias: Array | None, old: Array | None) -> Array:
    """`left @ right` in f32, accumulated along the common dimension; `bias` and `old` are broadcast to the result.

    With both, `bias` initializes the even total and `old` the odd one; a single one initializes the odd total.
    """
    left, right = flush(left), flush(right)
    rows, columns = left.shape[0], right.shape[1]
    given = [flush(value) for value in (bias, old) if value is not None]
    plain = without_denormals(left, right, *given)
    result = np.empty((rows, columns), np.float32)
    width = max(64, _TILE_TERMS // max(1, 4 * rows))
    for first in range(0, columns, width):
        tile = slice(first, min(first + width, columns))
        totals = np.zeros((2, rows, tile.stop - first), np.float32)
        for start, value in zip((1, 0), reversed(given), strict=False):
            totals[start] = np.broadcast_to(value, result.shape)[:, tile]
        product = np.empty(totals.shape[1:], np.float32)
        for place in range(left.shape[1]):
            np.multiply(left[:, place, None], right[place, tile], out=product)
            total = totals[place & 1]
            np.add(total, product if plain else flush(product), out=total)
            if not plain:
                total[...] = flush(total)
        np.add(totals[0], totals[1], out=result[:, tile])
    return flush(result)


# -- aligned ----------------------------------------------------------------------------------------------------------


@np.errstate(all="ignore")
def aligned_matmul(
    left: Array, right: Array, start: Array | None, kind: np.dtype[Any], width: int = BLOCK_TERMS
) -> Array:
    """`start + left @ right` in blocks of `width` terms, as `kind`; operands hold values of a 16-bit type.

    For a 16-bit result, first compute double-precision sums with an error bound relative to the model. Only elements
    whose rounding this leaves undecided are computed exactly.
    """
    left, right = flush(left.astype(np.float32)), flush(right.astype(np.float32))
    if spare := -left.shape[1] % width:
        left = np.pad(left, ((0, 0), (0, spare)))
        right = np.pad(right, ((0, spare), (0, 0)))
    a = np.ascontiguousarray(left.reshape(left.shape[0], -1, width).transpose(1, 2, 0))
    b = right.reshape(-1, width, right.shape[1])
    first = np.zeros((left.shape[0], right.shape[1]), np.float32) if start is None else flush(start.astype(np.float32))
    plain = without_denormals(left, right, first)
    if kind == np.float32 or first.size * left.shape[1] < _TILE_TERMS:
        return keep_sign(_dense(a, b, first, plain).astype(kind, copy=False))
    total, slack = _estimate(a, b, first)
    result = (total - slack).astype(kind)
    differs = result.view(np.uint16) != (total + slack).astype(kind).view(np.uint16)
    open_ = np.nonzero(differs | np.isnan(result))
    if 4 * open_[0].size > total.size:
        return keep_sign(_dense(a, b, first, plain).astype(kind))
    result[open_] = _single(left, right, first, open_, width, plain).astype(kind)
    return keep_sign(result)


def _estimate(a: Array, b: Array, start: Array) -> tuple[Array, Array]:
    """The f32 total of exact block sums, and a bound on its difference from the model's total.

    Truncation loses less than 2**-24 of the largest product in each of the other terms. The model's roundings of a
    block sum and of a total, and those computed here, differ by at most one unit in the last place each: at most 2 *
    epsilon of the magnitude.
    """
    total, magnitude = start.copy(), np.abs(start)
    block, moved = np.empty(total.shape), np.empty_like(total)
    for left, right in zip(a, b, strict=True):
        np.matmul(left.T.astype(np.float64), right.astype(np.float64), out=block)
        np.copyto(moved, block, casting="same_kind")
        total += moved
        np.abs(total, out=moved)
        magnitude += moved
    by_left = np.abs(a).max(axis=1).T
    by_right = np.abs(b).max(axis=1)
    lost = np.minimum(
        (by_left * _others(a).T) @ by_right,
        by_left @ (by_right * _others(b)),
    )
    # A block sum is the difference of two totals: all their roundings together are below 3 * 2 * epsilon * magnitude.
    slack = np.float32(1.01 * _EPSILON) * (lost + 6 * magnitude)
    slack += np.where((magnitude > 0) & (magnitude < 2.0**-90), np.float32(2.0**-110), np.float32(0))
    return total, slack


def _others(factors: Array) -> Array:
    """Number of nonzero factors per block besides the largest product's."""
    return np.maximum(np.count_nonzero(factors, axis=1) - 1, 0).astype(np.float32)


def _dense(a: Array, b: Array, start: Array, plain: bool) -> Array:
    """Exact sums for the whole result `[rows, columns]` from `a: [blocks, terms, rows]` and `b: [blocks, terms,
    columns]`.
    """
    result = start.copy()
    (_, terms, rows), columns = a.shape, b.shape[2]
    width = min(columns, max(64, _TILE_TERMS // (64 * terms)))
    height = max(1, min(rows, _TILE_TERMS // (width * terms)))
    memory = np.empty((2, terms * width * height), np.float32)  # fresh memory for every block costs more than the sums
    for row in range(0, rows, height):
        for column in range(0, columns, width):
            total = result[row : row + height, column : column + width]
            products = memory[0][: terms * total.size].reshape(terms, *total.shape)
            integers = memory[1].view(np.int32)[: terms * total.size].reshape(products.shape)
            for left, right in zip(a[:, :, row : row + height], b[:, :, column : column + width], strict=True):
                np.multiply(left[:, :, None], right[:, None, :], out=products)
                total += _block_sum(products, integers)
                if not plain:
                    _flush_in_place(total)
    return result


def _single(left: Array, right: Array, start: Array, where: tuple[Array, ...], width: int, plain: bool) -> Array:
    """Exact sums for a list of result positions."""
    rows, columns = where
    totals = start[where]
    turned = np.ascontiguousarray(right.T)
    count = max(1, 8 * _TILE_TERMS // left.shape[1])
    for first in range(0, totals.size, count):
        part = slice(first, first + count)
        products = np.ascontiguousarray((left[rows[part]] * turned[columns[part]]).T)
        total = totals[part]
        integers = np.empty((width, total.size), np.int32)
        for block in products.reshape(-1, width, total.size):
            total += _block_sum(block, integers)
            if not plain:
                _flush_in_place(total)
    return totals


def _block_sum(products: Array, integers: Array) -> Array:
    """Aligned sum of f32 products over the first axis. Overwrites them and `integers`, an int32 array of the same
    shape.
    """
    if len(products) == 1:
        total = flush(products[0])
        return np.where(np.isnan(total), _NAN, total)
    peak = np.maximum(np.maximum.reduce(products), -np.minimum.reduce(products))
    exponent = peak.view(np.int32) >> 23
    rare = ((exponent < _SMALLEST_BITS) & (peak != 0)) | (exponent >= 0xFF)
    found = _rare_block_sum(products[:, rare]) if rare.any() else None
    np.maximum(exponent, _SMALLEST_BITS, out=exponent)
    scale = (2 * 127 + _PLACES - exponent << 23).view(np.float32)
    np.multiply(products, scale, out=products)
    np.copyto(integers, products, casting="unsafe")
    total = np.add.reduce(integers, dtype=np.int32).astype(np.float32)  # |term| < 2**25: 32 of them fit
    total *= (exponent - _PLACES << 23).view(np.float32)
    if found is not None:
        total[rare] = found
    return total


def _rare_block_sum(products: Array) -> Array:
    """`_block_sum` for products `[terms, n]` with infinities, NaNs or denormals."""
    products = flush(products)
    peak = np.abs(products).max(axis=0)
    finite = np.isfinite(peak)
    if not finite.all():  # an infinity of one sign hides NaNs
        above, below = (products == np.inf).any(axis=0), (products == -np.inf).any(axis=0)
        sums = np.where(above == below, _NAN, np.where(above, np.float32(np.inf), np.float32(-np.inf)))
        sums[finite] = _rare_block_sum(products[:, finite]) if finite.any() else 0
        return sums
    _, exponent = np.frexp(peak.astype(np.float64))
    unit = np.ldexp(1.0, exponent - 1 - _PLACES)
    return flush((np.trunc(products / unit).sum(axis=0) * unit).astype(np.float32))


def _flush_in_place(total: Array) -> None:
    magnitude = np.abs(total)
    denormal = (magnitude < np.float32(2.0**-126)) & (magnitude > 0)
    if denormal.any():
        np.multiply(total, np.float32(0), out=total, where=denormal)
