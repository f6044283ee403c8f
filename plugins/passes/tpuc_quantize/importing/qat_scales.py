"""Read the scales found by quantization-aware training from its table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from tpuc.api import QUANTIZE_TABLE, Builder, CalibrationError, Module, NoneType, Operation, PassContext, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.quantized import Product
from tpuc_ops.traits import KeepsRange, states

from tpuc_quantize.importing.propagation import NEGLIGIBLE, reached
from tpuc_quantize.tables.table import FP8, INT4, CalibrationTable, QatScales, TensorThreshold

_SUFFIXES = {1: "weight", 2: "bias"}
"""Suffixes that the tool appends to the name of a product for its operands."""


def own_entries(table: CalibrationTable, names: Collection[str]) -> dict[str, TensorThreshold]:
    """The entries of the table by value name: TPU-MLIR appends the operator's name to the tensor's name."""
    return {own_name(name, names): entry for name, entry in table.entries.items()}


def own_name(name: str, names: Collection[str]) -> str:
    """The value that a table entry refers to: 'x_Conv' is the value 'x' unless a value has the full name."""
    stem, _, operator = name.rpartition("_")
    return stem if name not in names and stem in names and operator[:1].isupper() else name


def learned_entries(
    module: Module, table: CalibrationTable, entries: Mapping[str, TensorThreshold]
) -> dict[str, TensorThreshold]:
    """The entries, completed: values without one take that of 4 bits, which spans the same range, or that of the
    operand whose range they roughly keep, widened by slopes and bounds.
    """
    names = {value.name for operation in module.main.operations for value in operation.results}
    narrow = {own_name(name, names): entry for name, entry in table.int4_entries.items()}
    found = {**narrow, **entries}
    for operation in module.main.operations:
        if states(operation.op, KeepsRange) and operation.operands[0].name in found:
            entry = _widened(found[operation.operands[0].name], operation, module)
            for result in operation.results:
                found.setdefault(result.name, entry)
    return found


def _widened(entry: TensorThreshold, operation: Operation, module: Module) -> TensorThreshold:
    """The operand's entry for a result that may reach further; fill values of masks would leave no resolution and are
    not part of the range.
    """
    low, high = min(entry.minimum, 0.0), max(entry.maximum, 0.0)
    most = NEGLIGIBLE * entry.threshold
    found = [one for one in reached(module, operation, low, high) if abs(one) <= most]
    if all(low <= one <= high for one in found):
        return entry
    low, high = min(low, *found), max(high, *found)
    return TensorThreshold(max(entry.threshold, -low, high), low, high)


def remark_on_kinds(table: CalibrationTable, context: PassContext) -> None:
    """Remark on number types that the chip lacks."""
    if context.chip is None:
        return
    chip = context.chip.description
    if table.sections.get(INT4) and "int4" not in chip.modes:
        names = list(table.int4_entries)
        context.remark(
            f"calibration table: {len(names)} values are in int4 (first: '{names[0]}'), which {chip.name} does not "
            "support; they are stored in int8"
        )
    rows = table.sections.get(FP8, ())
    if rows:
        context.remark(
            f"calibration table: ignored the fp8 scales of {len(rows)} weights (first: '{rows[0].split()[0]}'), which "
            f"{chip.name} does not support"
        )


def keep_floats(module: Module, missing: list[str], context: PassContext) -> None:
    """Compute ops in floats whose results training did not quantize."""
    context.remark(
        f"{module.name}: the calibration table has no scales for {len(missing)} values (first: '{missing[0]}'); their "
        "ops compute in float"
    )
    if context.chip is None or context.chip.description.float_mode is None:
        return
    table = dict.fromkeys(missing, context.chip.description.float_mode)
    context.leave(QUANTIZE_TABLE, {**table, **context.find(QUANTIZE_TABLE, {})})


def give_scales(module: Module, scales: Mapping[str, QatScales]) -> None:
    """Give filters the scales found by training; biases are rounded to whole steps of theirs.

    Raises CalibrationError for an unknown weight, and for a number of scales that does not match the channels.
    """
    products = {operation.name for operation in module.main.operations if isinstance(operation.op, Product)}
    named = {_own_weight(name, products): name for name in scales}
    left = dict(scales)
    for place in list(_places(module)):
        found = next((named[name] for name in place.names if name in named), None)
        if found is not None:
            left.pop(found, None)
            place.give(module, found, scales[found].scales)
    if left:
        raise CalibrationError(
            f"the calibration table has scales of '{next(iter(left))}', which is not a weight of a convolution or "
            f"product of module '{module.name}'. Export the table and the network together."
        )


def _own_weight(name: str, products: Collection[str]) -> str:
    stem, _, kind = name.rpartition("_")
    return f"{own_name(stem, products)}_{kind}" if kind in _SUFFIXES.values() else name


@dataclass(frozen=True)
class _Place:
    """A constant operand of a product, and the names that a table may have for it."""

    operation: Operation
    index: int

    @property
    def weight(self) -> Value:
        return self.operation.operands[self.index]

    @property
    def names(self) -> tuple[str, ...]:
        return f"{self.operation.name}_{_SUFFIXES[self.index]}", self.weight.name

    def give(self, module: Module, name: str, scales: tuple[float, ...]) -> None:
        channels = self.operation.result.tensor.dims[-1 if isinstance(self.operation.op, top.MatMul) else 1]
        if len(scales) not in (1, channels):
            raise CalibrationError(
                f"the calibration table has {len(scales)} scales of '{name}', but op '{self.operation.name}' "
                f"({self.operation.op.name}) has {channels} channels. Export the table and the network together."
            )
        array = module.weights[self.weight.name]
        if self.index == 1:
            constant = top.Weight(scale=scales)
        else:
            constant, array = top.Weight(), _rounded(array, scales)
        build = Builder(module, before=self.operation, constant=constant)
        new = build.weight(f"{self.operation.name}_learned_{_SUFFIXES[self.index]}", array)
        self.operation.set_operand(self.index, new)


def _places(module: Module) -> Iterator[_Place]:
    for operation in module.main.operations:
        if not isinstance(operation.op, Product):
            continue
        for index in range(1, len(operation.operands)):
            operand = operation.operands[index]
            if index in _SUFFIXES and not isinstance(operand.type, NoneType) and operand.is_constant:
                yield _Place(operation, index)


def _rounded(bias: Array, scales: tuple[float, ...]) -> Array:
    steps = np.asarray(scales, np.float64)
    if not steps.all():
        return bias
    return (np.rint(bias.reshape(-1) / steps) * steps).reshape(bias.shape).astype(np.float32)
