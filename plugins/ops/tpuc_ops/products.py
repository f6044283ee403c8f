"""Products of float32 matrices that are the same on every processor.

The last digit of a sum depends on its order, which BLAS libraries choose by processor and number of threads. Here, both
factors are rounded to grids on which every sum of some hundred products is an integer number of steps below 2**53:
float64 represents it exactly in any order, and the result is rounded to float32 once. A grid is as fine as float32 at
the largest element; factors with many much smaller elements get further grids for the remainder.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tpuc_ops.arrays import Array

STEPS = 23
"""Bits of the largest element on its grid."""
MOST_PRODUCTS = 1 << (53 - 2 * STEPS)
"""Maximum number of products in a sum that float64 represents exactly. Longer sums add up such partial sums in
order.
"""
SMALL = 2.0**-13
"""Elements below this fraction of the largest one are small; one grid leaves an error of 2**-11 of such an element."""
MANY = 0.1
"""Fraction of small elements that justifies another grid."""
MOST_PARTS = 3
UNEVEN, FEW_ROWS = 2.0**-4, 0.05
"""A row is uneven if its largest product is below this fraction of its upper bound; this fraction of uneven rows is
tolerated.
"""
LEAST_KEPT, MOST_KEPT = 1 << 12, 1 << 26
"""Minimum elements of a constant that is kept in float64, and maximum bytes of all kept constants."""
_LOOKED_AT = 256
_FARTHEST = 100
"""Exponent of two beyond which elements get no grid."""
_LEAST = 126
"""Exponent below which powers of two have fewer bits (denormals)."""


@dataclass(frozen=True)
class Factor:
    """A matrix as a sum of float32 parts, each on its own grids."""

    parts: tuple[Array, ...]

    def wide(self) -> list[Array]:
        """Return the parts in float64."""
        return [part.astype(np.float64) for part in self.parts]


def factor(x: Array, axes: tuple[int, ...], least: int = 1, size: Array | None = None) -> Factor | None:
    """Split `x` into parts on grids, at least `least`, with one exponent for all elements along `axes`; None if it
    contains infinities, NaN, or huge elements. `size`: the magnitudes of `x`, if known.
    """
    size = np.abs(x) if size is None else size
    largest = size.max(axis=axes, keepdims=True, initial=0.0)
    if not (largest < 2.0**_FARTHEST).all():
        return None
    exponents = np.maximum(np.frexp(largest)[1], -_FARTHEST)
    parts, rest, limit = list[Array](), x, largest
    while len(parts) < MOST_PARTS:
        parts.append(_rounded(rest, exponents))
        limit = limit * np.float32(SMALL if len(parts) == 1 else 2.0**-STEPS)
        if len(parts) >= least and not _has_many_below(size, limit):
            break
        rest, exponents = rest - parts[-1], np.maximum(exponents - STEPS, STEPS - _LEAST)
    return Factor(tuple(parts))


def wide_factor(x: Array, axes: tuple[int, ...], least: int = 1) -> list[Array] | None:
    """Return the parts of `factor` in float64; None as there."""

    def compute() -> list[Array]:
        found = factor(x, axes, least)
        return [] if found is None else found.wide()

    return _remembered(x, (*axes, least), compute) or None


def sizes(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the largest magnitudes along `axes`."""
    return _remembered(x, axes, lambda: [np.abs(x).max(axis=axes, initial=0.0)])[0]


def parts_needed(left: Array, right: Array) -> int:
    """Return the number of parts needed for both factors, from the magnitudes of left `[..., rows, depth]` and right
    `[..., depth]`. Two are needed if large elements of a row meet small elements of the other factor, so that
    rounding errors dominate.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        bound = left.max(axis=-1, initial=0.0) * right.max(axis=-1, initial=0.0)[..., None] * np.float32(UNEVEN)
        enough = FEW_ROWS * bound.size
        if left.size and left.shape[:-2] == right.shape[:-1] and _few_below(left, right, bound, enough):
            return 1
        best = (left * right[..., None, :]).max(axis=-1, initial=0.0)
        return 2 if np.count_nonzero(best < bound) > enough else 1


def _few_below(left: Array, right: Array, bound: Array, enough: float) -> bool:
    """Quick test for `parts_needed`: True if the product at each row's largest element is large enough in all but a few
    rows.
    """
    first = left.argmax(axis=-1)[..., None]
    met = np.take_along_axis(right[..., None, :], first, -1) if right.ndim > 1 else right[first]
    return bool(np.count_nonzero((np.take_along_axis(left, first, -1) * met)[..., 0] < bound) <= enough)


_Key = tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]
_kept: dict[_Key, list[Array]] = {}


def _remembered(x: Array, what: tuple[int, ...], compute: Callable[[], list[Array]]) -> list[Array]:
    """Cache results of constants (read-only arrays) for the lifetime of the owner of their memory."""
    if x.flags.writeable or x.size < LEAST_KEPT or 0 in x.strides:
        return compute()
    key = int(x.__array_interface__["data"][0]), x.shape, x.strides, what
    found = _kept.get(key)
    if found is None:
        found = compute()
        owner: Any = x if x.base is None else x.base
        bytes_kept = sum(one.nbytes for arrays in [*_kept.values(), found] for one in arrays)
        if type(owner) is np.ndarray and bytes_kept <= MOST_KEPT:
            _kept[key] = found
            weakref.finalize(owner, _kept.pop, key, None)
    return found


def _rounded(x: Array, exponents: Array) -> Array:
    """Round to 23 bits below the powers of two given by `exponents`, which no element exceeds."""
    result = x * np.ldexp(np.float32(1), STEPS - exponents)
    np.rint(result, out=result)
    return np.multiply(result, np.ldexp(np.float32(1), exponents - STEPS), out=result)


def _has_many_below(size: Array, limit: Array) -> bool:
    every = max(size.size // _LOOKED_AT, 1)
    places = np.unravel_index(np.arange(0, size.size, every), size.shape)
    some, small = size[places], np.broadcast_to(limit, size.shape)[places]
    return bool(np.count_nonzero((some > 0) & (some < small)) > MANY * np.count_nonzero(some))


def exact_product(left: list[Array], right: list[Array]) -> Array:
    """Multiply float64 matrices, each given as a sum of parts on grids; the result is the same for every order of
    summation.
    """
    depth = left[0].shape[-1]
    result: Array | None = None
    for begin in range(0, depth, MOST_PRODUCTS):
        some = slice(begin, begin + MOST_PRODUCTS)
        for one, other in product(range(len(left)), range(len(right))):
            if one + other < max(len(left), len(right)):  # the rest is far below a float32
                sums = np.matmul(left[one][..., some], right[other][..., some, :])
                result = sums if result is None else np.add(result, sums, out=result)
    return np.zeros((*left[0].shape[:-1], right[0].shape[-1])) if result is None else result


def right_factor(right: Array) -> Factor | Array:
    """Prepare the right operand of several `matmul` calls."""
    found = factor(right, (-2,), 2) if right.ndim > 1 else None
    return right if found is None else found


def matmul(left: Array, right: Array | Factor) -> Array:
    """``left @ right`` of float32 arrays. If there are infinities, NaN, or elements beyond 2**100, the last digit is
    that of ordinary float64 sums.
    """
    if not isinstance(right, Factor) and (left.ndim == 1 or right.ndim == 1):
        return _of_vectors(left, right)
    a, b = _factors(left, right)
    if a is None or b is None:
        with np.errstate(over="ignore", invalid="ignore"):
            whole = right if not isinstance(right, Factor) else sum(right.parts[1:], right.parts[0])
            return np.matmul(left.astype(np.float64), whole.astype(np.float64)).astype(np.float32)
    return exact_product(a, b).astype(np.float32)


def _factors(left: Array, right: Array | Factor) -> tuple[list[Array] | None, list[Array] | None]:
    if isinstance(right, Factor):
        return wide_factor(left, (-1,), len(right.parts)), right.wide()
    least = parts_needed(np.abs(left), sizes(right, (-1,)))
    return wide_factor(left, (-1,), least), wide_factor(right, (-2,), least)


def _of_vectors(left: Array, right: Array) -> Array:
    """Multiply with vectors as numpy does: a row on the left, a column on the right."""
    result = matmul(left[None] if left.ndim == 1 else left, right[:, None] if right.ndim == 1 else right)
    result = result[..., 0] if right.ndim == 1 else result
    return result[..., 0] if left.ndim == 1 and right.ndim == 1 else result[..., 0, :] if left.ndim == 1 else result


def einsum(mode: str, operands: Sequence[Array]) -> Array:
    """Einstein summation such as ``abc,cd->abd``, two operands at a time."""
    terms, _, wanted = mode.partition("->")
    parts = [_plain(term, operand) for term, operand in zip(terms.split(","), operands, strict=True)]
    label, array = parts[0]
    for number, (other, operand) in enumerate(parts[1:], 2):
        kept = {*wanted, *"".join(later for later, _ in parts[number:])}
        label, array = _pair(label, array, other, operand, kept)
    label, array = _summed(label, array, set(wanted))
    return np.array(array.transpose([label.index(one) for one in wanted]), order="C")


def _plain(term: str, array: Array) -> tuple[str, Array]:
    """Replace labels that occur twice by the diagonal."""
    once = "".join(dict.fromkeys(term))
    return once, array if once == term else np.einsum(f"{term}->{once}", array)


def _summed(label: str, array: Array, kept: set[str]) -> tuple[str, Array]:
    axes = tuple(place for place, one in enumerate(label) if one not in kept)
    return "".join(one for one in label if one in kept), array.sum(axis=axes) if axes else array


def _pair(label: str, left: Array, other: str, right: Array, kept: set[str]) -> tuple[str, Array]:
    label, left = _summed(label, left, {*kept, *other})
    other, right = _summed(other, right, {*kept, *label})
    batch = [one for one in label if one in other and one in kept]
    inner = [one for one in label if one in other and one not in kept]
    rows, columns = [one for one in label if one not in other], [one for one in other if one not in label]
    sizes = dict(zip(label + other, left.shape + right.shape, strict=True))

    def arranged(array: Array, own: str, *groups: list[str]) -> Array:
        array = array.transpose([own.index(one) for group in (batch, *groups) for one in group])
        flat = [math.prod(sizes[one] for one in group) for group in groups]
        return array.reshape(*(sizes[one] for one in batch), *flat)

    result = matmul(arranged(left, label, rows, inner), arranged(right, other, inner, columns))
    found = batch + rows + columns
    return "".join(found), result.reshape([sizes[one] for one in found])
