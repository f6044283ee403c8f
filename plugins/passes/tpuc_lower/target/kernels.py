"""Look up kernels."""

from __future__ import annotations

from typing import Any

from tpuc.api import (
    Chip,
    ChipDescription,
    Constant,
    CpuRoutine,
    FunctionChip,
    FunctionKernel,
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
    cpu_function,
)

from tpuc_lower.target.results import CHIP

COEFFICIENTS = "packed"
COEFFICIENTS_ADDRESS = "packed_addr"


def chip_of(context: PassContext, pass_name: str) -> Chip:
    """The chip of this run, or of an earlier pass; raises UsageError when none was chosen."""
    chip = context.chip or context.find(CHIP)
    if chip is None:
        raise UsageError(f"pass '{pass_name}' needs a chip: add --chip NAME")
    return chip


def runs_on_chip(operation: Operation) -> bool:
    """True for operations that compute: not constants, inputs, absent values and returns."""
    if isinstance(operation.op, (Constant, NetworkInput)) or not operation.results:
        return False
    return any(isinstance(result.type, TensorType) for result in operation.results) or not all(
        isinstance(result.type, NoneType) for result in operation.results
    )


def find_kernel(
    context: PassContext, operation: Operation, *, in_tiles: bool = False
) -> TileKernel[Any, Any] | MoveKernel[Any] | CpuRoutine[Any]:
    """The kernel cell of an operation; raises Unsupported when there is none, or when it refuses the node.

    `in_tiles`: a move happens in local memory.
    """
    chip = chip_of(context, "group-layers")
    found: TileKernel[Any, Any] | MoveKernel[Any] | CpuRoutine[Any] | KernelChoice[Any] = _cell(
        context, chip, operation
    )
    node = Node.of(operation)
    kernel = found.kernel(node) if isinstance(found, KernelChoice) else found
    if in_tiles and isinstance(kernel, MoveKernel):
        kernel = kernel.local(node) or kernel
    _check(chip, operation, kernel.refuse(node))
    return kernel


def has_kernel(context: PassContext, chip: ChipDescription, node: Node) -> bool:
    """True if there is a kernel cell that does not refuse the node."""
    cell = context.registry.find_cell("tpuc.kernels", chip.owners, node.op.name.partition(".")[0], node.op.name)
    if cell is None:
        return False
    found: TileKernel[Any, Any] | MoveKernel[Any] | CpuRoutine[Any] | KernelChoice[Any] = cell.value
    kernel = found.kernel(node) if isinstance(found, KernelChoice) else found
    return kernel.refuse(node) is None


def find_function(context: PassContext, chip: FunctionChip, operation: Operation) -> FunctionKernel[Any]:
    """The function kernel of an operation; raises Unsupported when there is none, or when it refuses the node."""
    kernel: FunctionKernel[Any] = _cell(context, chip, operation)
    _check(chip, operation, kernel.refuse(Node.of(operation)))
    return kernel


def _cell(context: PassContext, chip: Chip, operation: Operation) -> Any:
    name = operation.op.name
    cell = context.registry.find_cell("tpuc.kernels", chip.description.owners, name.partition(".")[0], name)
    if cell is None:
        function = cpu_function(context.registry, chip.description.owners, name)
        if function is not None:
            return function
        place = f"{_place(chip, operation)}: no installed package has a kernel for it"
        raise Unsupported(f"{place}; install one, or change the node")
    return cell.value


def _check(chip: Chip, operation: Operation, reason: str | None) -> None:
    if reason is not None:
        raise Unsupported(f"{_place(chip, operation)}: {reason}; change the node or choose another chip")


def _place(chip: Chip, operation: Operation) -> str:
    return f"node '{operation.name}': {operation.op.name} on {chip.description.name}"
