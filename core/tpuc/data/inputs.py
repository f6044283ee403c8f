"""The inputs of a module as samples must fill them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpuc.data.layout import Layout, layout_of
from tpuc.data.preprocess import Preprocess
from tpuc.data.samples import ANY_SHAPE, SampleInput
from tpuc.data.stored import is_plain, quantise, quantise_evenly
from tpuc.errors import InvalidModel
from tpuc.ir import ElementType, Module, Op, Operation, TensorType, Uniform, Value
from tpuc.ir.attributes import StringAttr
from tpuc.ir.dtypes import numpy_dtype
from tpuc.ir.traits import NetworkInput
from tpuc.ir.types import of_tensor

_FIELDS = (
    *("mean", "scale", "pixel_format", "keep_aspect_ratio"),
    *("keep_ratio_mode", "pad_value", "pad_type"),
)

Remark = Callable[[str], None]

INPUT_LAYOUT = "module.input_layout"
"""Attribute of modules: what the user says of the order of dimensions in arrays for inputs, `nchw` or `nhwc`."""

_FILE_LAYOUTS: Mapping[str, Layout] = {"TENSORFLOW": "nhwc", "TFLITE": "nhwc"}
"""By the platform of a module: the order in which its file keeps images, where it is not that of TOP."""


def preprocess_from(attributes: Mapping[str, Any], shape: tuple[int, ...] = ()) -> Preprocess:
    """The preprocessing that attributes of these names ask for; what they leave out keeps its default.

    Of one channel an image is gray unless something else is said.
    """
    given: dict[str, Any] = {name: attributes[name] for name in _FIELDS if attributes.get(name) not in (None, ())}
    dims, layout, crop = (attributes.get(name) for name in ("resize_dims", "channel_format", "crop"))
    if dims:
        given["resize_dims"] = (dims[0], dims[1])
    elif crop and len(shape) == 4:
        extents = shape[1:3] if layout == "nhwc" else shape[2:]
        given["resize_dims"] = (round(extents[0] / crop), round(extents[1] / crop))
    if layout in ("nchw", "nhwc"):
        given["layout"] = layout
    if len(shape) == 4 and shape[3 if layout == "nhwc" else 1] == 1:
        given.setdefault("pixel_format", "gray")
    return Preprocess(**given)


def preprocess_of(op: Op, shape: tuple[int, ...] = ()) -> Preprocess:
    """The preprocessing that a network input's attributes ask for."""
    known = {field.name: op.__dict__[field.name] for field in dataclasses.fields(op) if field.name in op.__dict__}  # pyright: ignore[reportArgumentType]  # op definitions are dataclasses
    return preprocess_from(known, shape)


def is_described(op: Op) -> bool:
    """Did somebody say how a picture becomes this network input?"""
    fields = op.__dict__
    said = fields.get("do_preprocess")
    return any(fields.get(name) is not None for name in _FIELDS) if said is None else bool(said)


def inputs_of(module: Module, remark: Remark | None = None) -> list[SampleInput]:
    """One entry per network input, in order. `remark` hears of data that are quantised on the way.

    Modules of other dialects than TOP and TPU have no operations that bring arguments into the network: there the
    arguments themselves are the inputs, and their extents may be open.
    """
    file, said = _FILE_LAYOUTS.get(_word(module, "module.platform")), _word(module, INPUT_LAYOUT)
    brought = [operation for operation in module.main.operations if isinstance(operation.op, NetworkInput)]
    if not brought:
        return [_argument(value, index) for index, value in enumerate(module.main.inputs)]
    return [_input_of(operation, file, said, remark) for operation in brought]


def _argument(value: Value, index: int) -> SampleInput:
    name, type_ = value.name or f"arg{index}", of_tensor(value.type)  # as the interpreter calls it
    if not isinstance(type_, TensorType):
        raise InvalidModel(f"argument {index} of 'main' is neither a tensor nor a number; make it one")
    shape = ANY_SHAPE if type_.shape is None else type_.shape
    return SampleInput(name, shape, numpy_dtype(type_.storage), is_described=False)


def _input_of(operation: Operation, file: Layout | None, said: str, remark: Remark | None) -> SampleInput:
    type_ = operation.result.tensor
    preprocess = preprocess_of(operation.op, type_.dims)
    return SampleInput(
        operation.name or f"arg{operation.operands[0].index}",  # as the interpreter calls it
        type_.dims,
        numpy_dtype(type_.storage),
        preprocess,
        quantiser(operation.name, type_.element, remark, rounds_evenly=rounds_evenly(operation.op)),
        layout_of(type_.dims, preprocess.layout, file, said),
        is_described(operation.op),
    )


def _word(module: Module, attribute: str) -> str:
    """A module's attribute of text; empty when it is not there."""
    value = module.attributes.get(attribute)
    return value.value if isinstance(value, StringAttr) else ""


def rounds_evenly(op: Op) -> bool:
    """Are the integers of a network input those of ONNX's QuantizeLinear?"""
    return getattr(op, "round_mode", None) == "HalfToEven"


def quantiser(
    name: str, element: ElementType, remark: Remark | None = None, *, rounds_evenly: bool = False
) -> Callable[[NDArray[Any]], NDArray[np.integer[Any]]] | None:
    """What stores float data in an input of quantised integers; None for inputs that take data as they are.
    `rounds_evenly`: as ONNX's QuantizeLinear does, not as a Cast of a chip.
    """
    if not isinstance(element, Uniform) or (is_plain(element) and not rounds_evenly):
        return None
    told: list[str] = []

    def store(values: NDArray[Any]) -> NDArray[Any]:
        if remark is not None and not told:
            told.append(name)
            remark(
                f"input '{name}' takes {numpy_dtype(element.storage)}: float data are quantised with scale "
                f"{element.scale:.9g} and zero point {element.zero_point}; give integers to pass them as they are"
            )
        return quantise_evenly(values, element) if rounds_evenly else quantise(values, element)

    return store
