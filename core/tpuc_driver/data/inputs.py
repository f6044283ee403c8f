"""Describe the inputs of a module for samples: shapes, types, layouts, preprocessing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.errors import InvalidModel
from tpuc.ir import ElementType, Module, Operation, TensorType, Uniform, Value
from tpuc.ir.attributes import StringAttr
from tpuc.ir.dtypes import numpy_dtype
from tpuc.ir.preprocess import is_described, preprocess_of, rounds_evenly
from tpuc.ir.traits import NetworkInput
from tpuc.ir.types import of_tensor

from tpuc_driver.data.layout import Layout, layout_of
from tpuc_driver.data.samples import ANY_SHAPE, SampleInput
from tpuc_driver.data.stored import is_plain, quantize, quantize_evenly

Remark = Callable[[str], None]

INPUT_LAYOUT = "module.input_layout"
"""Attribute of modules: the user's layout of input arrays, `nchw` or `nhwc`."""

_FILE_LAYOUTS: Mapping[str, Layout] = {"TENSORFLOW": "nhwc", "TFLITE": "nhwc"}
"""The image layout of a network's file by platform, where it differs from TOP's."""


def inputs_of(module: Module, remark: Remark | None = None) -> list[SampleInput]:
    """One entry per network input, in order. `remark` is called when data are quantized on the way.

    In dialects other than TOP and TPU, modules have no input operations: the function's arguments are the inputs, and
    their extents may be open.
    """
    file, chosen = _FILE_LAYOUTS.get(_word(module, "module.platform")), _word(module, INPUT_LAYOUT)
    brought = [operation for operation in module.main.operations if isinstance(operation.op, NetworkInput)]
    if not brought:
        return [_argument(value, index) for index, value in enumerate(module.main.inputs)]
    return [_input_of(operation, file, chosen, remark) for operation in brought]


def _argument(value: Value, index: int) -> SampleInput:
    name, type_ = value.name or f"arg{index}", of_tensor(value.type)  # as the interpreter calls it
    if not isinstance(type_, TensorType):
        raise InvalidModel(f"argument {index} of 'main' is neither a tensor nor a number; make it one")
    shape = ANY_SHAPE if type_.shape is None else type_.shape
    return SampleInput(name, shape, numpy_dtype(type_.storage), is_described=False)


def _input_of(operation: Operation, file: Layout | None, chosen: str, remark: Remark | None) -> SampleInput:
    type_ = operation.result.tensor
    preprocess = preprocess_of(operation.op, type_.dims)
    return SampleInput(
        operation.name or f"arg{operation.operands[0].index}",  # as the interpreter calls it
        type_.dims,
        numpy_dtype(type_.storage),
        preprocess,
        quantizer(operation.name, type_.element, remark, rounds_evenly=rounds_evenly(operation.op)),
        layout_of(type_.dims, preprocess.layout, file, chosen),
        is_described(operation.op),
    )


def _word(module: Module, attribute: str) -> str:
    """A string attribute of a module; empty when absent."""
    value = module.attributes.get(attribute)
    return value.value if isinstance(value, StringAttr) else ""


def quantizer(
    name: str, element: ElementType, remark: Remark | None = None, *, rounds_evenly: bool = False
) -> Callable[[NDArray[Any]], NDArray[np.integer[Any]]] | None:
    """The function that quantizes float data for an integer input; None for other inputs. `rounds_evenly`: as ONNX's
    QuantizeLinear, not as a chip's Cast.
    """
    if not isinstance(element, Uniform) or (is_plain(element) and not rounds_evenly):
        return None
    remarked: list[str] = []

    def store(values: NDArray[Any]) -> NDArray[Any]:
        if remark is not None and not remarked:
            remarked.append(name)
            remark(
                f"input '{name}' takes {numpy_dtype(element.storage)}: float data is quantized with scale "
                f"{element.scale:.9g} and zero point {element.zero_point}; integers are passed unchanged"
            )
        return quantize_evenly(values, element) if rounds_evenly else quantize(values, element)

    return store
