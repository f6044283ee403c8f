"""How alike two tensors are: cosine, euclidean, signal to noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tpuc.errors import TpucError

Array: TypeAlias = npt.NDArray[Any]


class NothingToCompare(TpucError):
    """A comparison over zero tensors or elements, which is never a perfect score."""


@dataclass(frozen=True)
class Similarity:
    """Of one tensor to its reference. 1 is equal; `sqnr_db` is infinite then."""

    cosine: float
    euclidean: float
    sqnr_db: float


def cosine(x: Array, reference: Array) -> float:
    """The cosine of the angle between two tensors; 1 for two zero tensors, 0 when only one is zero."""
    a, b = _pair(x, reference)
    norms = math.sqrt(float(a @ a)) * math.sqrt(float(b @ b))
    if norms == 0:
        return 1.0 if not a.any() and not b.any() else 0.0
    return float(a @ b) / norms


def euclidean(x: Array, reference: Array) -> float:
    """`1 - ||x - y|| / ||(x + y) / 2||`; 1 when equal, minus infinity for opposites."""
    a, b = _pair(x, reference)
    distance = float(np.linalg.norm(a - b))
    if distance == 0:
        return 1.0
    middle = float(np.linalg.norm((a + b) / 2))
    return 1.0 - distance / middle if middle else -math.inf


def sqnr_db(x: Array, reference: Array) -> float:
    """Power of the reference over power of the error, in decibels."""
    a, b = _pair(x, reference)
    error = a - b
    noise, signal = float(error @ error), float(b @ b)
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def similarity(x: Array, reference: Array) -> Similarity:
    """All measures of one tensor."""
    return Similarity(cosine(x, reference), euclidean(x, reference), sqnr_db(x, reference))


def compare(arrays: Mapping[str, Array], references: Mapping[str, Array]) -> dict[str, Similarity]:
    """By name, for every tensor that both have, in the order of `arrays`; none at all raises NothingToCompare."""
    result = {name: similarity(array, references[name]) for name, array in arrays.items() if name in references}
    if not result:
        raise NothingToCompare("the two sides have no tensor name in common; compare results of the same network")
    return result


def _pair(x: Array, reference: Array) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    if x.size != reference.size:
        raise TpucError(f"tensors of {x.size} and {reference.size} elements cannot be compared; give the same value")
    if x.size == 0:
        raise NothingToCompare("tensors without elements cannot be compared; give the network some input")
    return x.astype(np.float64).reshape(-1), reference.astype(np.float64).reshape(-1)
