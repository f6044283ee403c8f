"""Connect calibrated values of a partly quantized network with the stored ones."""

from __future__ import annotations

from tpuc.api import F32, Calibrated, Module, NetworkInput, Return, TensorType, Value, remove_dead
from tpuc_ops.quant.casts import Dequantize, Quantize


def join_calibrated(module: Module) -> None:
    """Remove casts between calibrated and stored values: both sides get the stored type."""
    outputs = set(module.main.outputs)
    for operation in list(module.main.operations):
        if isinstance(operation.op, Quantize) and _is_calibrated(operation.operands[0]):
            source, result = operation.operands[0], operation.result
            if source.defining is None or isinstance(source.defining.op, NetworkInput):
                if all(isinstance(user.op, Quantize) for user in source.users):
                    source.type = source.tensor.with_element(F32)
            elif result not in outputs:
                source.type = result.type
                result.replace_with(source)
                operation.erase()
        elif isinstance(operation.op, Dequantize) and _is_calibrated(operation.result):
            for user, index in list(operation.result.uses):
                if not isinstance(user.op, Return):
                    user.set_operand(index, operation.operands[0])
            operation.result.type = operation.result.tensor.with_element(F32)
    remove_dead(module)


def _is_calibrated(value: Value) -> bool:
    return isinstance(value.type, TensorType) and isinstance(value.type.element, Calibrated)
