"""Scales and zero points stated by the network, for ops that quantize and dequantize."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tpuc_ops.shapes import positive_axis


def check_parameters(dims: Sequence[int], scales: Sequence[float], zero_points: Sequence[int], axis: int) -> None:
    """Raise ValueError unless there is one scale and zero point, or one for each index of `axis`."""
    if len(scales) != len(zero_points) or not scales:
        raise ValueError(f"there are {len(scales)} scales and {len(zero_points)} zero points")
    if len(scales) > 1 and len(scales) != dims[positive_axis(axis, len(dims))]:
        raise ValueError(f"{len(scales)} scales do not fit axis {axis} of extent {dims[axis]}")


def per_axis(values: Sequence[float], rank: int, axis: int) -> npt.NDArray[np.float32]:
    """Return the values in float32, shaped to broadcast along `axis`."""
    array = np.asarray(values, np.float32)
    return array.reshape(()) if array.size == 1 else array.reshape((-1,) + (1,) * (rank - 1 - axis % rank))


def integer_range(name: str) -> tuple[int, int]:
    """Return the smallest and largest number of an integer type given by its ONNX name, such as INT8; raises ValueError
    for other names.
    """
    bits = name.removeprefix("U").removeprefix("INT")
    if not bits.isdecimal():
        raise ValueError(f"{name} is not an integer type")
    span = 1 << int(bits)
    return (0, span - 1) if name.startswith("U") else (-span // 2, span // 2 - 1)
