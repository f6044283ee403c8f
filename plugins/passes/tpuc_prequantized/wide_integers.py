"""Handle networks quantized to more bits than a chip's integers have."""

from __future__ import annotations

from collections.abc import Callable

from tpuc.api import (
    F32,
    FLOAT_MODES,
    ChipDescription,
    Module,
    Node,
    PassContext,
    StringAttr,
    TensorType,
    Unsupported,
    Value,
)
from tpuc_lower.target.kernels import has_kernel
from tpuc_ops import tpu

from tpuc_prequantized.common import (
    CHIP_BITS,
    bypass_casts,
    changes_to_products,
    computed_values,
    network_inputs,
)
from tpuc_prequantized.stored_weights import dequantize_weights


def wide_to_floats(module: Module, mode: str, chip: ChipDescription, remark: Callable[[str], None]) -> bool:
    """Where a value has more bits, convert all integers to floats, if `mode` is a float mode.

    Returns True if there was such a value. Raises Unsupported for another mode.
    """
    wide = next((value for value in computed_values(module) if _is_wide(value)), None)
    if wide is None:
        return False
    bits = wide.tensor.storage.bits
    floats = [one for one in chip.modes if one in FLOAT_MODES]
    if mode not in floats:
        way_out = f"Compile it with --quantize {' or '.join(floats)}, or quantize" if floats else "Quantize"
        raise Unsupported(
            f"{module.name}: value '{wide.name}' is quantized to {bits} bits, but chips compute with {CHIP_BITS}-bit "
            f"integers. {way_out} the network to {CHIP_BITS} bits."
        )
    _to_floats(module)
    remark(f"{module.name} is quantized to {bits} bits: its integers become floats, compiling in mode '{mode}'")
    return True


def has_wide_inputs(module: Module) -> bool:
    """True if the network takes scaled integers wider than the chip's."""
    return bool(_wide_inputs(module))


def reads_inputs(module: Module, chip: ChipDescription, context: PassContext) -> bool:
    """True if the chip can convert such integers to floats."""
    casts = (Node(tpu.Cast(), (type,), (type.with_element(F32),)) for type in _wide_inputs(module))
    return all(has_kernel(context, chip, cast) for cast in casts)


def _wide_inputs(module: Module) -> list[TensorType]:
    return [one.result.tensor for one in network_inputs(module) if _is_wide(one.result)]


def _is_wide(value: Value) -> bool:
    return value.tensor.is_quantized and value.tensor.storage.bits > CHIP_BITS


def _to_floats(module: Module) -> None:
    changes_to_products(module)
    dequantize_weights(module)
    for value in computed_values(module):
        if value.tensor.is_quantized:
            value.type = value.tensor.with_element(F32)
    bypass_casts(module)
    module.main.update_type()
    module.attributes["module.state"] = StringAttr("TOP_F32")
