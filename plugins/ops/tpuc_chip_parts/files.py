"""Tensors of compiled files: element types, and their description for the compiler."""

from __future__ import annotations

import enum
from typing import Any, Protocol

import numpy as np
from tpuc.api import ScalarType, TensorInfo, numpy_dtype
from tpuc.api.simulation import stored_element

_QUANTIZED = {"si8": "i8", "ui8": "u8", "si16": "i16", "ui16": "u16"}
"""Integer types that may have a scale, in the spelling of uniform types."""


class FileType(enum.IntEnum):
    """Base of a container's codes of element types, which are named F32, BF16, INT8, UINT8 and so on."""

    @property
    def element(self) -> str:
        """The name of the element type."""
        return self.name.lower().replace("uint", "ui").replace("int", "si")

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type."""
        return numpy_dtype(ScalarType(self.element))


class FileTensor(Protocol):
    """A tensor described by a file."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def type(self) -> FileType: ...
    @property
    def address(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def scale(self) -> float: ...
    @property
    def zero_point(self) -> float: ...


def tensor_info(tensor: FileTensor, *, is_input: bool) -> TensorInfo:
    """The description of a file's input or output for the compiler."""
    name = tensor.type.element
    element = stored_element(name, _QUANTIZED.get(name), tensor.scale, int(tensor.zero_point), is_input=is_input)
    return TensorInfo(tensor.name, tensor.shape, element, tensor.address)
