"""Factors per channel by which a module's values were divided; multiplying restores the values of the original
network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tpuc.ir import Module
from tpuc.ir.attributes import DenseArrayAttr, DictAttr
from tpuc.ir.types import ScalarType

Array: TypeAlias = npt.NDArray[Any]

ATTRIBUTE = "module.channel_factors"
_SHAPE, _FACTORS = "shape", "factors"


def state_factors(module: Module, factors: Mapping[str, Array]) -> None:
    """Record the factors of values in the module's attributes, each with a shape that broadcasts to its value."""
    module.attributes[ATTRIBUTE] = DictAttr(tuple((name, _attribute(array)) for name, array in factors.items()))


def stated_factors(module: Module) -> dict[str, Array]:
    """The factors recorded by `state_factors`, by value name; empty for an unchanged module."""
    noted = module.attributes.get(ATTRIBUTE)
    return {name: _array(one) for name, one in noted.items} if isinstance(noted, DictAttr) else {}


def _attribute(array: Array) -> DictAttr:
    shape = DenseArrayAttr(ScalarType("i64"), tuple(array.shape))
    factors = DenseArrayAttr(ScalarType("f32"), tuple(array.astype(np.float32).ravel().tolist()))
    return DictAttr(((_SHAPE, shape), (_FACTORS, factors)))


def _array(noted: Any) -> Array:
    fields = dict(noted.items)
    return np.array(fields[_FACTORS].items, np.float32).reshape(fields[_SHAPE].items)
