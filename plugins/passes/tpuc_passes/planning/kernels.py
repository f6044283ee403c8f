"""Finds the kernel of an operation, and the tasks of a function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tpuc.api import (
    Chip,
    Constant,
    CpuRoutine,
    DictAttr,
    Function,
    IntegerAttr,
    KernelChoice,
    MoveKernel,
    NetworkInput,
    Node,
    NoneType,
    Operation,
    PassContext,
    TensorType,
    TileKernel,
    Unsupported,
    UsageError,
)

from tpuc_passes.planning.places import is_free
from tpuc_passes.planning.task import HostTask, MoveTask, Task, TileTask
from tpuc_passes.planning.tiling import make_task

TILING = "tiling"
VIEW = "view"
LOCAL = "local"
"""On an operation that only moves data and does so in local memory."""
COEFFICIENTS = "packed"
COEFFICIENTS_ADDRESS = "packed_addr"


def chip_of(context: PassContext, pass_name: str) -> Chip:
    """The chip of this run; raises UsageError when none was chosen."""
    if context.chip is None:
        raise UsageError(f"pass '{pass_name}' needs a chip: add --chip NAME")
    return context.chip


def runs_on_chip(operation: Operation) -> bool:
    """Does the operation compute? Constants, inputs, absent values and returns do not."""
    if isinstance(operation.op, (Constant, NetworkInput)) or not operation.results:
        return False
    return any(isinstance(result.type, TensorType) for result in operation.results) or not all(
        isinstance(result.type, NoneType) for result in operation.results
    )


def find_kernel(context: PassContext, operation: Operation) -> TileKernel[Any] | MoveKernel[Any] | CpuRoutine[Any]:
    """The kernel cell of an operation; raises Unsupported when there is none, or when it refuses the node."""
    chip = chip_of(context, "group-layers")
    name = operation.op.name
    dialect = name.partition(".")[0]
    owners = (chip.description.name, *chip.description.families)
    cell = context.registry.find_cell("tpuc.kernels", owners, dialect, name)
    place = f"node '{operation.name}': {name} on {chip.description.name}"
    if cell is None:
        raise Unsupported(f"{place}: no installed package has a kernel for it; install one, or change the node")
    found: TileKernel[Any] | MoveKernel[Any] | CpuRoutine[Any] | KernelChoice[Any] = cell.value
    node = Node.of(operation)
    kernel = found.kernel(node) if isinstance(found, KernelChoice) else found
    if LOCAL in operation.extra_attributes and isinstance(kernel, MoveKernel):
        kernel = kernel.local(node) or kernel
    reason = kernel.refuse(node)
    if reason is not None:
        raise Unsupported(f"{place}: {reason}; change the node or choose another chip")
    return kernel


def tasks_of(context: PassContext, function: Function) -> Iterator[Task]:
    """The tasks of a grouped function in program order; what only shares bytes needs none."""
    chip = chip_of(context, "generate-code")
    for operation in function.operations:
        if not runs_on_chip(operation) or is_free(operation):
            continue
        kernel = find_kernel(context, operation)
        if isinstance(kernel, MoveKernel):
            node = Node.of(operation)
            yield MoveTask(operation, node, kernel.moves(node))
            continue
        if isinstance(kernel, CpuRoutine):
            yield HostTask(operation, Node.of(operation), kernel)
            continue
        view = operation.extra_attributes.get(VIEW)
        yield _tiled(make_task(operation, kernel, chip, view.value if isinstance(view, IntegerAttr) else 0))


def _tiled(task: TileTask) -> TileTask:
    sizes = task.operation.extra_attributes.get(TILING)
    if not isinstance(sizes, DictAttr):
        raise UsageError(f"node '{task.operation.name}' has no tiling: run the pass group-layers before this one")
    return task.with_sizes({name: size.value for name, size in sizes.items if isinstance(size, IntegerAttr)})
