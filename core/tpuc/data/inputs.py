"""The inputs of a module as samples must fill them."""

from __future__ import annotations

import dataclasses
from typing import Any

from tpuc.data.images import Preprocess
from tpuc.data.samples import SampleInput
from tpuc.ir import Module, Op
from tpuc.ir.dtypes import numpy_dtype
from tpuc.ir.traits import NetworkInput

_FIELDS = ("mean", "scale", "pixel_format", "keep_aspect_ratio")


def preprocess_of(op: Op) -> Preprocess:
    """The preprocessing that a network input's attributes ask for; what they leave out keeps its default."""
    known = {field.name: op.__dict__[field.name] for field in dataclasses.fields(op) if field.name in op.__dict__}  # pyright: ignore[reportArgumentType]  # op definitions are dataclasses
    given: dict[str, Any] = {name: known[name] for name in _FIELDS if known.get(name) is not None}
    dims = known.get("resize_dims")
    if dims:
        given["resize_dims"] = (dims[0], dims[1])
    if known.get("channel_format"):
        given["layout"] = known["channel_format"]
    return Preprocess(**given)


def inputs_of(module: Module) -> list[SampleInput]:
    """One entry per network input, in order."""
    return [
        SampleInput(
            operation.name,
            operation.result.tensor.dims,
            numpy_dtype(operation.result.tensor.storage),
            preprocess_of(operation.op),
        )
        for operation in module.main.operations
        if isinstance(operation.op, NetworkInput)
    ]
