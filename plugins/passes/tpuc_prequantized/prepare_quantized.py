"""Convert a pre-quantized network to the form that a chip's integer lowerings take."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import (
    F32,
    QUANTIZE_TABLE,
    Calibrated,
    Location,
    Module,
    NetworkInput,
    Operation,
    Pass,
    PassContext,
    TensorType,
    Uniform,
    UsageError,
    Value,
    free_name,
)
from tpuc_lower.lowering.cells import Cells
from tpuc_lower.target.kernels import chip_of, runs_on_chip
from tpuc_lower.target.results import FILE_INPUTS, FILE_OUTPUTS, MODE
from tpuc_ops.quant.casts import Dequantize, Quantize

from tpuc_prequantized.between_casts import computed_from_integers
from tpuc_prequantized.common import (
    changes_to_products,
    computed_values,
    has_scales,
    network_inputs,
)
from tpuc_prequantized.join_calibrated import join_calibrated
from tpuc_prequantized.requantize_symmetric import RequantizeSymmetric
from tpuc_prequantized.stored_bytes import kept_signed, plain_bytes
from tpuc_prequantized.stored_weights import dequantize_weights
from tpuc_prequantized.wide_differences import differences_to_floats
from tpuc_prequantized.wide_integers import has_wide_inputs, reads_inputs, wide_to_floats


@dataclass(frozen=True)
class PrepareQuantized(Pass):
    """Chooses the integer mode, the result `mode`: with zero points where the chip supports them, else symmetric
    through `requantize-symmetric`. Integer types that the chip lacks become floats if a float mode was requested.

    With zero points every value keeps its scale, bytes are unsigned where none is below 0, and inputs become floats
    that are quantized first, as for other networks. Float ops of the network get the chip's float mode, except those
    with calibrated results and, without zero points, those between casts that the chip computes on integers with the
    stated types. The result `file_inputs` holds the inputs' types in the file, and `file_outputs` those of the outputs.
    """

    name = "prepare-quantized"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises UsageError for a float mode other than the default one, Unsupported for integers wider than
        the chip's, where no float mode was requested.
        """
        is_quantized = has_scales(module)
        if not (is_quantized or has_wide_inputs(module)):
            return False
        chip = chip_of(context, self.name).description
        requested = str(context.options.get("quantize") or "")
        if not is_quantized:
            is_read = reads_inputs(module, chip, context)
            return not is_read and wide_to_floats(module, requested, chip, context.remark)
        join_calibrated(module)
        differences_to_floats(module)
        if wide_to_floats(module, requested, chip, context.remark):
            return True
        self._check(module, requested)
        context.leave(FILE_INPUTS, _file_inputs(module))
        context.leave(FILE_OUTPUTS, [(value.name, value.tensor) for value in module.main.outputs])
        table = dict(context.find(QUANTIZE_TABLE, {}))
        mode = chip.quantized_mode
        if chip.float_mode is not None:
            # With zero points casts stay between ops, and what reads one has floats.
            is_cast = mode == "int8-asym"
            integer_ops = set[str]() if is_cast else computed_from_integers(module, Cells.of(context, self.name, mode))
            table |= dict.fromkeys((name for name in _floats(module) if name not in integer_ops), chip.float_mode)
        context.leave(QUANTIZE_TABLE, table)
        context.leave(MODE, mode)
        if requested not in ("int8", "int8-asym"):
            context.remark(f"{module.name} is already quantized: compiling in mode '{mode}'")
        if mode == "int8-asym":
            _make_plain(module)
        else:
            RequantizeSymmetric().run(module, context)
        return True

    @staticmethod
    def _check(module: Module, mode: str) -> None:
        if mode in ("f16", "bf16"):
            raise UsageError(
                f"{module.name} is already quantized, and mode '{mode}' would round its integers a second time. "
                "Compile it with --quantize int8, or start from the float network."
            )


def _file_inputs(module: Module) -> dict[str, TensorType]:
    """The inputs that are quantized integers in the file, by name."""
    return {one.name: one.result.tensor for one in network_inputs(module) if one.result.tensor.is_quantized}


def _has_range(type_: TensorType) -> bool:
    return type_.is_quantized or isinstance(type_.element, Calibrated)


def _floats(module: Module) -> list[str]:
    """Ops that return floats in the pre-quantized network."""
    return [
        operation.name
        for operation in module.main.operations[:-1]
        if runs_on_chip(operation)
        and not isinstance(operation.op, (NetworkInput, Quantize, Dequantize))
        and not any(isinstance(v.type, TensorType) and _has_range(v.tensor) for v in operation.results)
    ]


def _make_plain(module: Module) -> None:
    changes_to_products(module)
    dequantize_weights(module, but_filters=True, but_biases=True)
    names = {value.name for value in computed_values(module)}
    kept = kept_signed(module)
    for value in computed_values(module):
        element = value.tensor.element
        if isinstance(element, Uniform) and (element.storage.is_unsigned or value not in kept):
            value.type = value.tensor.with_element(plain_bytes(element))
    for operation in list(module.main.operations):
        if isinstance(operation.op, NetworkInput) and operation.result.tensor.is_quantized:
            _quantize_input(operation, names)
    module.main.update_type()


def _quantize_input(operation: Operation, names: set[str]) -> None:
    """Make the input a float, followed by a Quantize."""
    value: Value = operation.result
    name = free_name(f"{value.name}_i8", names.__contains__)
    names.add(name)
    cast = Operation(Quantize(), [value], [value.tensor], Location((name,)))
    value.replace_with(cast.result)
    cast.set_operand(0, value)
    for floats in (operation.operands[0], value):
        floats.type = floats.tensor.with_element(F32)
    block = operation.block
    assert block is not None
    block.insert_after(operation, cast)
