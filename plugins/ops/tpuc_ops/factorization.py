"""Sums, products, and factorizations of float64 matrices that are the same on every processor."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tpuc_ops.arrays import Array
from tpuc_ops.products import STEPS, exact_product

Floats: TypeAlias = NDArray[np.float64]

BLOCK = 32
"""Number of columns that are eliminated one by one before a matrix product updates the rest."""
_SUMMED = 1 << 14
"""Number of products that stay in the cache."""
_PARTS = 2
"""Number of parts of a factor, of 22 bits each."""
_LEAST = -900


def dot(a: Array, b: Array) -> float:
    """Return the dot product of two rows, in float64."""
    total = 0.0
    for start in range(0, a.size, _SUMMED):
        some = slice(start, start + _SUMMED)
        total += float(np.multiply(a[some], b[some], dtype=np.float64).sum())
    return total


def energy(a: Array) -> float:
    """Return the sum of squares of all elements."""
    flat = a.reshape(-1)
    return dot(flat, flat)


def finite_energy(a: Array) -> float:
    """As `energy`, without infinities, which masks produce in logarithms and maxima."""
    total = energy(a)
    return total if math.isfinite(total) else energy(a[np.isfinite(a)])


def error_energy(wanted: Array, got: Array) -> float:
    """Return the sum of squared differences over the elements whose wanted values are finite."""
    with np.errstate(all="ignore"):
        total = energy(wanted - got)
        if math.isfinite(total):
            return total
        counts = np.isfinite(wanted)
        return energy(wanted[counts] - got[counts])


def matmul(left: Floats, right: Floats) -> Floats:
    """``left @ right`` with 44 bits, relative to the largest element of each left row and right column."""
    return exact_product(_parts(left, -1), _parts(right, -2))


def _parts(x: Floats, axis: int) -> list[Array]:
    exponents = np.maximum(np.frexp(np.abs(x).max(axis=axis, keepdims=True, initial=0.0))[1], _LEAST)
    result: list[Array] = []
    for number in range(1, _PARTS + 1):
        far = np.ldexp(3.0, exponents + 51 - STEPS * number)
        part = (x + far) - far
        result.append(part)
        x = x - part
    return result


def root_of_inverse(matrix: Floats) -> Floats:
    """Return the upper triangular `u` with ``u.T @ u`` equal to the inverse of positive definite matrices `[...,
    n, n]`.
    """
    # With rows and columns in reverse the lower factor becomes an upper one, whose inverse is what is wanted.
    return np.ascontiguousarray(_lower_inverse(_cholesky(matrix[..., ::-1, ::-1]))[..., ::-1, ::-1])


def _cholesky(matrix: Floats) -> Floats:
    """Return the lower Cholesky factor."""
    lower = np.array(matrix)
    size = lower.shape[-1]
    for begin in range(0, size, BLOCK):
        end = min(begin + BLOCK, size)
        for place in range(begin, end):
            lower[..., place:, place] /= np.sqrt(lower[..., place, place, None])
            column = lower[..., place + 1 :, place]
            lower[..., place + 1 :, place + 1 : end] -= column[..., :, None] * column[..., None, : end - place - 1]
        panel = lower[..., end:, begin:end]
        if end < size:
            lower[..., end:, end:] -= matmul(panel, np.swapaxes(panel, -1, -2))
    return np.tril(lower)


def _lower_inverse(lower: Floats) -> Floats:
    result = np.zeros_like(lower)
    size = lower.shape[-1]
    for begin in range(0, size, BLOCK):
        end = min(begin + BLOCK, size)
        some = slice(begin, end)
        rest = np.zeros((*lower.shape[:-2], end - begin, end))
        rest[..., :, begin:] = np.eye(end - begin)
        if begin:
            rest[..., :begin] -= matmul(lower[..., some, :begin], result[..., :begin, :begin])
        for place in range(end - begin):
            rest[..., place, :] /= lower[..., begin + place, begin + place, None]
            below = lower[..., begin + place + 1 : end, begin + place]
            rest[..., place + 1 :, :] -= below[..., :, None] * rest[..., place, None, :]
        result[..., some, :end] = rest
    return result
