"""Turn a module for a chip of functions into a program of calls, tensors, constants, and working buffers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tpuc.api import (
    Constant,
    FunctionCall,
    FunctionChip,
    FunctionNode,
    FunctionProgram,
    Module,
    NetworkInput,
    Node,
    Operation,
    PassContext,
    Routine,
    StringAttr,
    TensorInfo,
    TensorType,
    TensorView,
    Unsupported,
    Value,
)
from tpuc.api.boundary import states_of
from tpuc_lower.target.kernels import find_function, runs_on_chip

from tpuc_plan.usmp.c_example import example
from tpuc_plan.usmp.c_source import c_files, functions, model_identifier
from tpuc_plan.usmp.planner import Call, PlacedProgram, Program, ProgramTensor


@dataclass(frozen=True)
class WrittenCall:
    """A call of the program and the routine behind it; tensor names are grouped by their role in the routine."""

    call: Call
    view: FunctionNode[Any]
    routine: Routine
    operands: tuple[str | None, ...]
    constants: tuple[str, ...]
    scratch: tuple[str, ...]

    def parameters(self, function: str) -> FunctionCall:
        """Return the call with positions instead of names."""
        tensors = self.call.tensors
        return FunctionCall(
            function,
            self.view,
            self.routine,
            len(tensors),
            tuple(None if name is None else tensors.index(name) for name in self.operands),
            tuple(tensors.index(name) for name in self.call.outputs),
            tuple(tensors.index(name) for name in self.constants),
            tuple(tensors.index(name) for name in self.scratch),
        )


@dataclass
class ProgramWriter:
    """Collects the calls of a module in order. Equal constants of several calls become one tensor."""

    module: Module
    context: PassContext
    chip: FunctionChip
    target: str
    tensors: dict[str, ProgramTensor] = field(default_factory=dict[str, ProgramTensor])
    written: list[WrittenCall] = field(default_factory=list[WrittenCall])
    same: dict[str, str] = field(default_factory=dict[str, str])
    constants: dict[bytes, str] = field(default_factory=dict[bytes, str])

    def run(self) -> Program:
        """Return the program of the whole module; `written` holds the routines behind its calls."""
        function = self.module.main
        self._check_outputs(function.outputs)
        inputs = [o.result for o in function.operations if isinstance(o.op, NetworkInput)]
        for value in inputs:
            self._add(value.name, value.tensor.size_bytes)
        border = {value.name for value in (*inputs, *function.outputs)}
        final = {value.name for value in function.outputs}
        for operation in function.operations:
            if runs_on_chip(operation):
                self._operation(operation, border, final)
        return Program(
            self.module.name,
            tuple(value.name for value in inputs),
            tuple(value.name for value in function.outputs),
            self.tensors,
            tuple(one.call for one in self.written),
            self.chip.alignment,
        )

    def _check_outputs(self, outputs: Sequence[Value]) -> None:
        for value in outputs:
            defining = value.defining
            if defining is None or isinstance(defining.op, (Constant, NetworkInput)):
                raise Unsupported(
                    f"output '{value.name}' is an input or a constant, not the result of a function; leave it out with "
                    "--output-names"
                )

    def _operation(self, operation: Operation, border: set[str], final: set[str]) -> None:
        kernel = find_function(self.context, self.chip, operation)
        arrays = tuple(self.module.constant(operand) for operand in operation.operands)
        operands = tuple(self._view(operand, border) for operand in operation.operands)
        results = tuple(one for result in operation.results if (one := self._view(result, border)) is not None)
        view: FunctionNode[Any] = FunctionNode(Node.of(operation), operands, results, arrays)
        result = operation.results[0].name
        if arrays[0] is None and result not in final and kernel.is_alias(view):
            source = operation.operands[0].name
            self.same[result] = self.same.get(source, source)
            return
        self._write(operation, view, kernel.routine(view))

    def _view(self, value: Value, border: set[str]) -> TensorView | None:
        if not isinstance(value.type, TensorType):
            return None
        at_border = value.name in border or value.is_constant
        return TensorView(value.type, self.chip.strides(value.type, at_border))

    def _write(self, operation: Operation, view: FunctionNode[Any], routine: Routine) -> None:
        names = [self._read(view, index, value) for index, value in enumerate(operation.operands)]
        constants = [self._constant(operation.name, number, array) for number, array in enumerate(routine.constants)]
        scratch = [f"{operation.name}/{one.name}" for one in routine.scratch]
        for name, one in zip(scratch, routine.scratch, strict=True):
            self._add(name, one.size_bytes)
        outputs = [value.name for value in operation.results if isinstance(value.type, TensorType)]
        for value in operation.results:
            if isinstance(value.type, TensorType):
                self._add(value.name, value.tensor.size_bytes)
        inputs = dict.fromkeys([*(name for name in names if name is not None), *constants])
        chosen = operation.extra_attributes.get("target")
        target = chosen.value if isinstance(chosen, StringAttr) else self.target
        call = Call(operation.name, tuple(inputs), tuple(outputs), tuple(scratch), target)
        self.written.append(WrittenCall(call, view, routine, tuple(names), tuple(constants), tuple(scratch)))

    def _read(self, view: FunctionNode[Any], index: int, value: Value) -> str | None:
        if view.operands[index] is None or view.arrays[index] is not None:
            return None
        return self.same.get(value.name, value.name)

    def _constant(self, owner: str, number: int, array: Any) -> str:
        data = np.ascontiguousarray(array).tobytes()
        key = hashlib.blake2b(data, digest_size=16).digest()
        name = self.constants.setdefault(key, f"{owner}/constant{number}")
        self.tensors.setdefault(name, ProgramTensor(name, len(data), data))
        return name

    def _add(self, name: str, size_bytes: int) -> None:
        self.tensors[name] = ProgramTensor(name, size_bytes)


def function_program(
    module: Module, placed: PlacedProgram, written: Sequence[WrittenCall], chip: FunctionChip
) -> FunctionProgram:
    """Return what the chip writes: the calls with their functions, and the files with the entry point and an
    example.
    """
    calls = [one.parameters(name) for one, name in zip(written, functions(placed), strict=True)]
    files: Mapping[str, str] = {**c_files(placed), "main.c": example(placed)}
    inputs = [o.result for o in module.main.operations if isinstance(o.op, NetworkInput)]
    return FunctionProgram(
        placed.program.name,
        model_identifier(placed.program.name),
        tuple(call for call, one in zip(calls, written, strict=True) if one.call.target == chip.description.name),
        files,
        tuple(_info(value) for value in inputs),
        tuple(_info(value) for value in module.main.outputs),
        placed.workspace.peak_bytes,
        placed.parameter.peak_bytes,
        states_of(module),
    )


def _info(value: Value) -> TensorInfo:
    return TensorInfo(value.name, value.tensor.dims, value.tensor.element, 0)
