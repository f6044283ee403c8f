"""The life cycle of a network: begin it, compile it to a module with weights, release it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpuc.api import F32, Module, TensorType, Value
from tpuc_importing.building import ModuleSource, TopBuilder
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.top.input import image_input

from tpuc_lang.graph import GRAPH, Graph, LangError, Step, Tensor, current_graph
from tpuc_lang.running import (
    FLOAT_MODES,
    check_options,
    compare_compiled,
    compare_references,
    compare_written,
    deploy,
    example_data,
    write,
)


def init(device: str, *_: Any) -> None:
    """Begin a network. The device is recorded; the module fits every chip."""
    if GRAPH.get() is not None:
        raise LangError("init: there is a network already; call tl.deinit() first.")
    GRAPH.set(Graph(device))


def deinit() -> None:
    """Release the network."""
    GRAPH.set(None)


def get_default_graph() -> Graph:
    """Return the network to which functions add."""
    return current_graph("get_default_graph")


def reset_default_graph(graph: Graph | None = None) -> None:
    """Continue with this network, or with an empty one for the same device."""
    device = current_graph("reset_default_graph").device
    GRAPH.set(Graph(device) if graph is None else graph)


def reset_graph(graph: Graph | None = None) -> None:
    """Clear the names of a network, by default the current one; its tensors become unusable."""
    chosen = current_graph("reset_graph") if graph is None else graph
    chosen.names.clear()
    chosen.count = 0


def compile(  # noqa: A001  # the interface's name
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    cmp: bool = True,
    refs: Mapping[str, Array] | None = None,
    mode: str = "f32",
    dynamic: bool = False,
    asymmetric: bool = False,  # noqa: ARG001  # the interface's
    no_save: bool = False,
    opt: int = 2,
    mlir_inference: bool = True,
    bmodel_inference: bool = True,  # noqa: ARG001  # the interface's
    log_level: str = "normal",
    embed_debug_info: bool = False,
    *,
    folder: Path | str = ".",
) -> Module:
    """Write `NAME_origin.mlir` and `NAME_top_f32_all_weight.npz`, and return the module.

    With `cmp` and `mlir_inference` both files are read back and must give the same results as the module in memory, on
    the inputs' example data or on random numbers, which are kept in `NAME_in_f32.npz`. `refs`: data of inputs and
    expected results. With `no_save` nothing is written. The module is not compiled for a chip; `mode`, `asymmetric`,
    `opt`, and `bmodel_inference` would apply to that.
    """
    check_options("compile", mode, dynamic, opt, log_level, embed_debug_info)
    graph = current_graph("compile")
    module = build(graph, name, inputs, outputs)
    if no_save:
        return module
    data = example_data(inputs, refs or {})
    path = write(module, Path(folder), name)
    if cmp and mlir_inference:
        compare_written(module, path, data, name)
        compare_references(module, data, refs or {})
    return module


def compile_f32(
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    cmp: bool = True,
    refs: Mapping[str, Array] | None = None,
    mode: str = "f32",
    dynamic: bool = False,
    opt: int = 2,
    no_save: bool = False,
    mlir_inference: bool = True,
    bmodel_inference: bool = True,
    top_mlir_inference: bool = True,
    tpu_mlir_inference: bool = True,
    log_level: str = "normal",
    embed_debug_info: bool = False,
    *,
    folder: Path | str = ".",
) -> Module:
    """As `compile`, then compile a file for the device in one mode, in f32, f16, and bf16 with `all`, or in none.

    With `cmp` and `bmodel_inference`, every file is run, and its results must be similar to the module's.
    """
    where = "compile_f32"
    if mode == "int8":
        raise LangError(f"{where}: mode int8 needs a calibration; use `tpuc calibrate` and `tpuc deploy`.")
    check_options(where, mode, dynamic, opt, log_level, embed_debug_info)
    compares = cmp and mlir_inference and top_mlir_inference and tpu_mlir_inference
    module = compile(name, inputs, outputs, compares, refs, no_save=no_save, folder=folder)
    if no_save:
        return module
    data = example_data(inputs, refs or {})
    device = current_graph(where).device.lower()
    for one in FLOAT_MODES if mode == "all" else () if mode == "none" else (mode,):
        model = deploy(Path(folder), name, device, one, opt)
        if cmp and bmodel_inference:
            compare_compiled(module, model, data)
    return module


def build(graph: Graph, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Module:
    """Return the module that computes `outputs` from `inputs`."""
    if not inputs or not outputs:
        raise LangError("compile: a network needs inputs and outputs; give both.")
    for tensor in (*inputs, *outputs):
        if tensor.graph is not graph:
            raise LangError(f"compile: tensor '{tensor.name}' belongs to another network; build it after tl.init.")
    for tensor in inputs:
        if tensor.step is not None or tensor.is_const:
            what = "a constant" if tensor.is_const else "computed"
            raise LangError(f"compile: input '{tensor.name}' is {what}; inputs are separate tensors.")
    reserved = frozenset(graph.names)
    source = ModuleSource(f"network '{name}'", name, "TPULANG", {}, reserved)
    builder = LangBuilder(source, inputs)
    for step in _needed(outputs):
        operands = [_operand(builder, tensor) for tensor in step.operands]
        types = [TensorType(result.shape, F32) for result in step.results]
        values = builder.build_all(step.op, operands, [result.name for result in step.results], types)
        builder.values.update((result.name, value) for result, value in zip(step.results, values, strict=True))
    return builder.finish([(tensor.name, _operand(builder, tensor)) for tensor in outputs])


class LangBuilder(TopBuilder):
    """Builder whose inputs state their own preprocessing."""

    def __init__(self, source: ModuleSource, inputs: Sequence[Tensor]) -> None:
        self._preprocessing = {tensor.name: tensor.preprocessing for tensor in inputs}
        super().__init__(source, [(tensor.name, TensorType(tensor.shape, F32)) for tensor in inputs])

    def _input_op(self, shape: tuple[int, ...], name: str) -> top.Input:
        said = self._preprocessing[name]
        return image_input(shape, said, name) if said and len(shape) == 4 else top.Input()


def _operand(builder: TopBuilder, tensor: Tensor | None) -> Value:
    if tensor is None:
        return builder.none()
    if tensor.name not in builder.values:
        if not tensor.is_const or tensor.data is None:
            raise LangError(
                f"compile: tensor '{tensor.name}' is neither computed nor constant; name it among the inputs, or give "
                "it data with is_const=True."
            )
        builder.values[tensor.name] = builder.foreign_weight(tensor.name, tensor.data, tensor.element)
    return builder.values[tensor.name]


def _needed(outputs: Sequence[Tensor]) -> list[Step]:
    """Return the steps that the outputs depend on, in order."""
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
