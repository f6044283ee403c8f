"""Arrays of ONNX tensors; external data are memory-mapped, so only what is used is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import external_data_helper, helper, numpy_helper
from tpuc.api import InvalidModel, Unsupported
from tpuc_ops.arrays import Array


def tensor_array(tensor: onnx.TensorProto, source: str) -> Array:
    """Return the values of a tensor of the file `source`; raises InvalidModel if they are incomplete."""
    if external_data_helper.uses_external_data(tensor):
        return _mapped(tensor, Path(source))
    if min(tensor.dims, default=0) < 0:
        raise _misfit(tensor, source)
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except KeyError as error:
        raise _unknown(tensor, source) from error
    except (OverflowError, TypeError, ValueError) as error:
        raise _misfit(tensor, source) from error


def _unknown(tensor: onnx.TensorProto, source: str) -> Unsupported:
    return Unsupported(
        f"{source}: weight '{tensor.name}' holds elements of type {tensor.data_type}, which are not known. Export the "
        "network with floats or integers."
    )


def _misfit(tensor: onnx.TensorProto, source: str) -> InvalidModel:
    shape = "x".join(map(str, tensor.dims)) or "scalar"
    return InvalidModel(
        f"{source}: weight '{tensor.name}' does not hold as many values as its shape {shape} says. Export or "
        "download the file again."
    )


def _mapped(tensor: onnx.TensorProto, path: Path) -> Array:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    file, offset, length = _place(tensor, path, entries)
    try:
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except KeyError:
        raise _unknown(tensor, str(path)) from None
    shape, size = tuple(tensor.dims), file.stat().st_size
    if min(shape, default=0) < 0:
        raise _misfit(tensor, str(path))
    end = offset + length if length else size
    if size < end:
        raise InvalidModel(
            f"{file}: is truncated: tensor '{tensor.name}' ends at byte {end}, the file at byte {size}. Export or "
            "download it again."
        )
    count = int(np.prod(shape, dtype=object))
    if _is_packed(tensor.data_type):
        return _unpacked(tensor, file, offset, end - offset, str(path))
    if count * dtype.itemsize != end - offset:
        raise _misfit(tensor, str(path))
    if not count:
        return np.empty(shape, dtype)
    return np.memmap(file, dtype.newbyteorder("<"), "r", offset, shape)


def _place(tensor: onnx.TensorProto, path: Path, entries: dict[str, str]) -> tuple[Path, int, int]:
    """Return file, first byte, and number of bytes (0: up to the end)."""
    location = entries.get("location", "")
    file = path.parent / location
    if not location or not file.is_file():
        raise InvalidModel(
            f"{path}: the data of tensor '{tensor.name}' is in the file '{location}', which is missing in "
            f"{path.parent}. Put it there."
        )
    if not file.resolve().is_relative_to(path.parent.resolve()):
        raise InvalidModel(
            f"{path}: the data of tensor '{tensor.name}' is in '{location}', outside of {path.parent}. Put both files "
            "into one folder, and export with a relative location."
        )
    offset, length = (entries.get(key, "0") for key in ("offset", "length"))
    if not offset.isdecimal() or not length.isdecimal():
        raise InvalidModel(
            f"{path}: the data of tensor '{tensor.name}' is at offset '{offset}' with length '{length}', which are not "
            "numbers. Export or download the file again."
        )
    return file, int(offset), int(length)


def _is_packed(data_type: int) -> bool:
    """True if several elements share a byte."""
    return onnx.TensorProto.DataType.Name(data_type).removeprefix("U").startswith(("INT4", "INT2", "FLOAT4"))


def _unpacked(tensor: onnx.TensorProto, file: Path, offset: int, length: int, source: str) -> Array:
    with file.open("rb") as stream:
        stream.seek(offset)
        inner = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        inner.raw_data = stream.read(length)
    return tensor_array(inner, source)
