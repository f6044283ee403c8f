"""Make a lowered network take and return stored values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import (
    Module,
    NetworkInput,
    Operation,
    Pass,
    PassContext,
    TensorType,
    Unsupported,
    UsageError,
    remove_dead,
)
from tpuc_ops import tpu

from tpuc_lower.boundary.file_bytes import dequantizes, return_bytes, take_bytes, take_name
from tpuc_lower.target.results import FILE_INPUTS, FILE_OUTPUTS


@dataclass(frozen=True)
class StripCasts(Pass):
    """Remove the Casts after inputs (`quant_input`) and before outputs (`quant_output`).

    The lists choose by position, counted from 1; empty lists mean all. Inputs without a Cast and outputs computed in
    float are already stored as they are. An input that takes unsigned bytes in the network's file takes those: a table
    maps each byte to the result of the Cast. Outputs return the bytes of the network's file, by a table likewise.
    """

    name = "strip-casts"
    quant_input: bool = False
    quant_output: bool = False
    quant_input_list: tuple[int, ...] = ()
    quant_output_list: tuple[int, ...] = ()

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises UsageError for invalid positions, Unsupported for inputs stored in two ways."""
        function = module.main
        inputs = [one for one in module.main.operations if isinstance(one.op, NetworkInput)]
        file_inputs, file_outputs = context.find(FILE_INPUTS, {}), context.find(FILE_OUTPUTS, ())
        changed = False
        if self.quant_input:
            for index in _chosen("input", self.quant_input_list, len(inputs)):
                changed |= _strip_input(module, inputs[index], file_inputs.get(inputs[index].name), context)
        if self.quant_output:
            for index in _chosen("output", self.quant_output_list, len(function.outputs)):
                changed |= _strip_output(module, index, context)
                if index < len(file_outputs):
                    name, own = file_outputs[index]
                    changed |= return_bytes(module, index, own)
                    take_name(module, index, name)
        remove_dead(module)
        function.update_type()
        return changed


def _chosen(what: str, positions: Sequence[int], count: int) -> Sequence[int]:
    for position in positions:
        if not 1 <= position <= count:
            raise UsageError(
                f"--quant-{what}-list names {what} {position}, but the network has {count}. Positions count from 1."
            )
    return [position - 1 for position in positions] or range(count)


def _strip_input(module: Module, operation: Operation, own: TensorType | None, context: PassContext) -> bool:
    value = operation.result
    casts = [user for user in value.users if isinstance(user.op, tpu.Cast)]
    if not casts:
        context.log(f"input '{operation.name}' is not quantized: --quant-input has no effect on it")
        return False
    others = [user for user in value.users if user is not casts[0]]
    if others:
        used = others[0].name or others[0].op.name
        raise Unsupported(
            f"input '{operation.name}' is stored as {casts[0].result.tensor.storage}, but '{used}' needs it in "
            "another form, so the file cannot take it quantized. Choose other inputs with --quant-input-list"
        )
    cast_type = casts[0].result.tensor
    if own is not None and own.storage.is_unsigned and cast_type.is_quantized and cast_type.element != own.element:
        take_bytes(module, operation, casts[0], own)
        return True
    stored = casts[0].result
    value.type = operation.operands[0].type = stored.tensor
    stored.replace_with(value)
    casts[0].erase()
    return True


def _strip_output(module: Module, index: int, context: PassContext) -> bool:
    terminator = module.main.terminator
    value = terminator.operands[index]
    cast = value.defining
    if value.tensor.is_quantized:
        return False
    if cast is None or not isinstance(cast.op, tpu.Cast) or cast.operands[0] in terminator.operands:
        context.log(f"output '{value.name}' is not quantized: --quant-output has no effect on it")
        return False
    stored = cast.operands[0]
    before = stored.defining
    if before is not None and not stored.tensor.is_quantized and dequantizes(module, before):
        stored = before.operands[0]  # first to a narrow float, then to a wide one
    terminator.set_operand(index, stored)
    return True
