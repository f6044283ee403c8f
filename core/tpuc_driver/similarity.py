"""Similarity of two tensors: cosine, Euclidean similarity, signal-to-noise ratio.

Every figure is defined for every tensor. The same infinity on both sides agrees, as two zeros do. NaN agrees with
nothing, nor does an infinity with another value: one such element makes the cosine 0 and the others minus infinity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.errors import TpucError

Array: TypeAlias = npt.NDArray[Any]
FloatArray: TypeAlias = npt.NDArray[np.float64]

_PLAIN_EXPONENT = 400
"""Squares of numbers below 2**400, and sums of 2**200 of them, are within float64."""


class NothingToCompare(TpucError):
    """A comparison over zero tensors or elements, which is never a perfect score."""


@dataclass(frozen=True)
class Similarity:
    """Of one tensor to its reference. 1 is equal; `sqnr_db` is infinite then."""

    cosine: float
    euclidean: float
    sqnr_db: float


def cosine(x: Array, reference: Array) -> float:
    """The cosine of the angle between two tensors; 1 for equal ones, 0 when only one is zero."""
    pair = finite_pair(x, reference)
    if pair is None:
        return 0.0
    if np.array_equal(*pair):
        return 1.0
    a, b = (_scaled(one, _exponent(one)) for one in pair)
    norms = math.sqrt(float(a @ a)) * math.sqrt(float(b @ b))
    return float(a @ b) / norms if norms else 0.0


def euclidean(x: Array, reference: Array) -> float:
    """`1 - ||x - y|| / ||(x + y) / 2||`; 1 when equal, minus infinity for opposites."""
    pair = finite_pair(x, reference)
    if pair is None:
        return -math.inf
    exponent = _exponent(*pair)
    a, b = (_scaled(one, exponent) for one in pair)
    distance = float(np.linalg.norm(a - b))
    if distance == 0:
        return 1.0
    middle = float(np.linalg.norm((a + b) / 2))
    return 1.0 - distance / middle if middle else -math.inf


def sqnr_db(x: Array, reference: Array) -> float:
    """Power of the reference over power of the error, in decibels."""
    pair = finite_pair(x, reference)
    if pair is None:
        return -math.inf
    common = _exponent(*pair)
    a, b = (_scaled(one, common) for one in pair)
    error = a - b
    exponents = _exponent(pair[1]), _exponent(error)
    signal, error = _scaled(pair[1], exponents[0]), _scaled(error, exponents[1])
    places = exponents[0] - exponents[1] - common
    return decibels(float(signal @ signal), float(error @ error)) + 20 * math.log10(2) * places


def decibels(signal: float, noise: float) -> float:
    """The ratio of two powers. Infinite without noise; minus infinity without signal, or with noise beyond numbers."""
    if noise == 0:
        return math.inf
    if signal == 0 or not (math.isfinite(signal) and math.isfinite(noise)):
        return -math.inf
    ratio = signal / noise
    return 10 * (math.log10(ratio) if 0 < ratio < math.inf else math.log10(signal) - math.log10(noise))


def similarity(x: Array, reference: Array) -> Similarity:
    """All measures of one tensor."""
    return Similarity(cosine(x, reference), euclidean(x, reference), sqnr_db(x, reference))


def compare(arrays: Mapping[str, Array], references: Mapping[str, Array]) -> dict[str, Similarity]:
    """By name, for every tensor that both have, in the order of `arrays`; none at all raises NothingToCompare."""
    result = {name: similarity(array, references[name]) for name, array in arrays.items() if name in references}
    if not result:
        raise NothingToCompare(
            "nothing to compare, because the two sides have no tensor name in common; compare results of the same "
            "network"
        )
    return result


def finite_pair(x: Array, reference: Array) -> tuple[FloatArray, FloatArray] | None:
    """Both as rows of finite numbers, equal infinities as 0; None when another element of either is no number."""
    if x.size != reference.size:
        raise TpucError(f"tensors of {x.size} and {reference.size} elements cannot be compared; give the same value")
    if x.size == 0:
        raise NothingToCompare("tensors without elements cannot be compared; give the network some input")
    a, b = x.astype(np.float64).reshape(-1), reference.astype(np.float64).reshape(-1)
    is_finite = np.isfinite(a) & np.isfinite(b)
    if is_finite.all():
        return a, b
    if not np.array_equal(a[~is_finite], b[~is_finite]):  # NaN does not equal itself
        return None
    return np.where(is_finite, a, 0), np.where(is_finite, b, 0)


def _exponent(*arrays: FloatArray) -> int:
    """0 where squares of all elements and their sums are ordinary numbers, else the exponent of the largest element."""
    largest = max(float(np.abs(array).max()) for array in arrays)
    exponent = math.frexp(largest)[1]
    return 0 if abs(exponent) < _PLAIN_EXPONENT else exponent


def _scaled(array: FloatArray, exponent: int) -> FloatArray:
    return np.ldexp(array, -exponent) if exponent else array
