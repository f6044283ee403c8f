"""A module for every sample of every op: what the tests of text print."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from tpuc.api import (
    Block,
    Calibrated,
    Function,
    FunctionType,
    Location,
    Module,
    NoneType,
    Op,
    Operation,
    Return,
    ScalarType,
    StringAttr,
    TensorType,
    Value,
)
from tpuc_ops import top
from tpuc_testing.op_conformance import OpConformance, Operand, Typed

Array = NDArray[Any]
F32 = ScalarType("f32")
RANGE = Calibrated(F32, -4.0, 4.0)
"""Of every value of a module that is to be quantized."""


@dataclass(frozen=True)
class OpSample:
    """An op with operands that its conformance test states; None is an absent one."""

    op: Op
    types: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    arrays: tuple[Array | None, ...]

    @property
    def is_float(self) -> bool:
        """Are all operands and results plain floats?"""
        present = [type for type, array in zip(self.types, self.arrays, strict=True) if array is not None]
        return all(type.element == F32 for type in (*present, *self.results))


def samples(package: ModuleType) -> Iterator[OpSample]:
    """Of every conformance test in the modules of a package of tests."""
    for found in pkgutil.iter_modules(package.__path__):
        if not found.name.startswith("test_"):
            continue
        module = importlib.import_module(f"{package.__name__}.{found.name}")
        for name, definition in vars(module).items():
            if name.startswith("Test") and isinstance(definition, type) and issubclass(definition, OpConformance):
                test = definition()
                yield from (_sample(test, operands) for operands in definition.samples)


def _sample(test: OpConformance, operands: Sequence[Operand]) -> OpSample:
    node = test.node(operands)
    arrays = tuple(operand.array if isinstance(operand, Typed) else operand for operand in operands)
    return OpSample(test.op, node.operand_types, node.result_types, arrays)


def alone(sample: OpSample, name: str, state: str) -> Module:
    """A module with that op alone, whose operands are the arguments; its location has the name."""
    module, body = _module(name, state, [t for t, x in zip(sample.types, sample.arrays, strict=True) if x is not None])
    arguments = iter(body.arguments)
    absent: Value | None = None
    operands: list[Value] = []
    for array in sample.arrays:
        if array is None and absent is None:
            absent = body.append(Operation(top.None_(), (), [NoneType()])).result
        operands.append(next(arguments) if array is not None else _given(absent))
    results = body.append(Operation(sample.op, operands, sample.results, Location((name,)))).results
    return _ended(module, body, results)


def network(sample: OpSample, name: str, element: Calibrated | ScalarType = F32) -> Module:
    """A TOP module whose first operand is an input, and whose others are weights; floats are of that element type."""
    module, body = _module(name, "TOP_F32", [sample.types[0]])
    operands: list[Value] = []
    for index, (type, array) in enumerate(zip(sample.types, sample.arrays, strict=True)):
        place = Location((f"{name}_of{index}",))
        if array is None:
            operands.append(body.append(Operation(top.None_(), (), [NoneType()])).result)
        elif index == 0:
            stated = type.with_element(element)
            operands.append(body.append(Operation(top.Input(), body.arguments, [stated], place)).result)
        else:
            module.weights[place.name] = array.astype(np.float32)
            operands.append(body.append(Operation(top.Weight(), (), [type], place)).result)
    stated = [type.with_element(element) for type in sample.results]
    names = tuple(f"{name}_r{index}" if index else name for index in range(len(stated)))
    results = body.append(Operation(sample.op, operands, stated, Location(names))).results
    return _ended(module, body, results)


def _module(name: str, state: str, arguments: Sequence[TensorType]) -> tuple[Module, Block]:
    module = Module(name)
    words = {"chip": "ALL", "platform": "ONNX", "state": state, "top_run_mode": "STATIC", "weight_file": "w.npz"}
    module.attributes |= {f"module.{word}": StringAttr(value) for word, value in words.items()}
    return module, Block(arguments)


def _ended(module: Module, body: Block, results: Sequence[Value]) -> Module:
    body.append(Operation(Return(), results))
    type = FunctionType(tuple(one.type for one in body.arguments), tuple(one.type for one in results))
    module.functions.append(Function("main", type, body))
    return module


T = TypeVar("T")


def _given(value: T | None) -> T:
    assert value is not None
    return value
