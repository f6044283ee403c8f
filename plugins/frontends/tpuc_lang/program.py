"""The life of a network: begun, compiled to a module and its weights, released."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import F32, Module, StringAttr, TensorType, Value, file_stem, parse_module, print_module, write_atomic
from tpuc_importing.building import ModuleSource, TopBuilder
from tpuc_ops.arrays import Array

from tpuc_lang.graph import GRAPH, Graph, LangError, Step, Tensor, current_graph

SEED = 0


def init(device: str, *_: Any) -> None:
    """Begin a network. The device is noted; what is built fits every chip."""
    if GRAPH.get() is not None:
        raise LangError("init: there is a network already; call tl.deinit() first.")
    GRAPH.set(Graph(device))


def deinit() -> None:
    """Release the network."""
    GRAPH.set(None)


def compile(  # noqa: A001  # the interface's name
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    cmp: bool = True,
    folder: Path | str = ".",
) -> Module:
    """Write `NAME_origin.mlir` and `NAME_top_f32_all_weight.npz`; the module is also what is returned.

    With `cmp` both are read back and must give the same results as the module in memory, on the inputs' example data
    or, without such, on random numbers; the data are kept in `NAME_in_f32.npz`.
    """
    graph = current_graph("compile")
    module = build(graph, name, inputs, outputs)
    weights = f"{file_stem(name)}_top_f32_all_weight.npz"
    module.attributes["module.weight_file"] = StringAttr(weights)
    path = Path(folder) / f"{file_stem(name)}_origin.mlir"
    module.weights.save(path.parent / weights)
    write_atomic(path, print_module(module))
    if cmp:
        _compare(module, path, inputs, name)
    return module


def build(graph: Graph, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Module:
    """The module that computes `outputs` from `inputs`."""
    if not inputs or not outputs:
        raise LangError("compile: a network needs inputs and outputs; give both.")
    for tensor in (*inputs, *outputs):
        if tensor.graph is not graph:
            raise LangError(f"compile: tensor '{tensor.name}' belongs to another network; build it after tl.init.")
    for tensor in inputs:
        if tensor.step is not None or tensor.is_const:
            what = "a constant" if tensor.is_const else "computed"
            raise LangError(f"compile: input '{tensor.name}' is {what}; inputs are tensors of their own.")
    reserved = frozenset(graph.names)
    source = ModuleSource(f"network '{name}'", name, "TPULANG", {}, reserved)
    builder = TopBuilder(source, [(tensor.name, TensorType(tensor.shape, F32)) for tensor in inputs])
    for step in _needed(outputs):
        operands = [_operand(builder, tensor) for tensor in step.operands]
        types = [TensorType(result.shape, F32) for result in step.results]
        first = builder.build(step.op, operands, step.results[0].name, types)
        assert first.defining is not None
        values: Sequence[Value] = first.defining.results
        builder.values.update((result.name, value) for result, value in zip(step.results, values, strict=True))
    return builder.finish([(tensor.name, _operand(builder, tensor)) for tensor in outputs])


def _operand(builder: TopBuilder, tensor: Tensor | None) -> Value:
    if tensor is None:
        return builder.none()
    if tensor.name not in builder.values:
        if not tensor.is_const or tensor.data is None:
            raise LangError(
                f"compile: tensor '{tensor.name}' is neither computed nor constant; name it among the inputs, or give "
                "it data with is_const=True."
            )
        builder.values[tensor.name] = builder.foreign_weight(tensor.name, tensor.data)
    return builder.values[tensor.name]


def _needed(outputs: Sequence[Tensor]) -> list[Step]:
    """The steps that the outputs depend on, each after those that it needs."""
    order, done = list[Step](), set[int]()
    for output in outputs:
        stack = [(step, _before(step)) for step in ([output.step] if output.step is not None else [])]
        while stack:
            step, before = stack[-1]
            following = next(before, None)
            if following is not None:
                if id(following) not in done:
                    stack.append((following, _before(following)))
                continue
            stack.pop()
            if id(step) not in done:
                done.add(id(step))
                order.append(step)
    return order


def _before(step: Step) -> Iterator[Step]:
    return (tensor.step for tensor in step.operands if tensor is not None and tensor.step is not None)


# Comparison


def _compare(module: Module, path: Path, inputs: Sequence[Tensor], name: str) -> None:
    from tpuc.api.host import Interpreter, write_npz

    generator = np.random.default_rng(SEED)
    data = {tensor.name: _example(tensor, generator) for tensor in inputs}
    write_npz(path.parent / f"{file_stem(name)}_in_f32.npz", data)
    written = _read(path, module)
    wanted, got = Interpreter(module).run(data), Interpreter(written).run(data)
    for output, array in wanted.items():
        if not np.array_equal(array, got[output], equal_nan=True):
            raise LangError(f"compile: output '{output}' of {path} is not what was built; write it again.")


def _read(path: Path, module: Module) -> Module:
    """What was written, with the ops of the module and the weights of its file."""
    from tpuc.api.host import read_npz

    known = {operation.op.name: type(operation.op) for operation in module.walk()}
    written = parse_module(path.read_text(encoding="utf-8"), known.get, str(path))
    for label, array in read_npz(path.parent / f"{file_stem(module.name)}_top_f32_all_weight.npz").items():
        written.weights[label] = array
    return written


def _example(tensor: Tensor, generator: np.random.Generator) -> Array:
    if tensor.data is not None:
        return tensor.data.astype(np.float32)
    if tensor.is_integer:
        limits = np.iinfo(tensor.dtype)
        low, high = max(int(limits.min), -128), min(int(limits.max), 127)
        return generator.integers(low, high, tensor.shape, endpoint=True).astype(np.float32)
    return generator.random(tensor.shape, np.float32)
