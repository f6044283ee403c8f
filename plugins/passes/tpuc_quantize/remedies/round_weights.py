"""Round filters as calibration found best for their operands."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tpuc.api import (
    CALIBRATION_TABLE,
    QUANTIZE_TABLE,
    CalibrationError,
    Module,
    Operation,
    Pass,
    PassContext,
    TensorType,
    UniformPerAxis,
    remove_unused,
)
from tpuc.api.evaluation import Array
from tpuc_lower.target.results import MODE
from tpuc_ops.quantized import Product
from tpuc_optimize.channel_links import constant, set_constant

from tpuc_quantize.remedies.scale_channels import MODES
from tpuc_quantize.remedies.weight_rounding import changed_filters
from tpuc_quantize.simulation.network import FakeNetwork, Filters
from tpuc_quantize.tables.table import CalibrationTable, as_table

ROUNDING = "weight_rounding"
"""The section of a calibration table with the rounding: remarks of the form `#weight_rounding op_name TEXT`, with one
byte per weight, compressed by zlib and encoded in base64: the number of steps above the nearest integer.
"""


@dataclass(frozen=True)
class RoundWeights(Pass):
    """In the int8 modes, replace filters by the values of their integers, which are not always the nearest: those that
    the table in the result `calibration_table` (or the file `table`) states. Float layers of the quantize table keep
    their filters, and so do those whose operands have several scales, since their filters differ.
    """

    name = "round-weights"
    table: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CalibrationError for annotations of another network."""
        table = as_table(self.table or context.find(CALIBRATION_TABLE))
        mode = str(context.find(MODE) or context.options.get("quantize") or "")
        if table is None or mode not in MODES:
            return False
        floats, changed = context.find(QUANTIZE_TABLE, {}), False
        changes = annotated_changes(module, table)
        for operation in list(module.main.operations) if changes else ():
            if operation.name not in changes or operation.name in floats or _has_scales(operation):
                continue
            filters = constant(module, operation, 1)
            assert filters is not None
            integers, scales = changed_filters(operation.op, filters, changes[operation.name])
            set_constant(module, operation, 1, integers.astype(np.float32) * scales)
            changed = True
        if changed:
            remove_unused(module)
        return changed


def rounding_lines(changes: Mapping[str, Array]) -> tuple[str, ...]:
    """The rounding as a section of a table."""
    return tuple(f"{name} {_text(array)}" for name, array in changes.items())


def annotated_changes(module: Module, table: CalibrationTable) -> dict[str, Array]:
    """The changes of filter integers in a table by op name; raises CalibrationError for another network."""
    sizes = {one.name: one.operands[1].tensor.size for one in module.main.operations if _has_filters(one)}
    found: dict[str, Array] = {}
    for line in table.sections.get(ROUNDING, ()):
        name, _, text = line.rpartition(" ")
        try:
            found[name] = np.frombuffer(zlib.decompress(base64.b64decode(text, validate=True)), np.int8)
        except (binascii.Error, zlib.error) as error:
            raise CalibrationError(f"the calibration table's rounding of '{name}' is damaged: {error}") from error
        if sizes.get(name) != found[name].size:
            raise CalibrationError(
                f"the calibration table's rounding of filters does not fit module '{module.name}': no op '{name}' with "
                f"{found[name].size} weights; calibrate it again with `tpuc calibrate`"
            )
    return found


def annotated_filters(net: FakeNetwork, table: CalibrationTable) -> Filters:
    """The filter integers and their scales that a table states, by step of a network."""
    changes, result = annotated_changes(net.module, table), Filters()
    for index, step in enumerate(net.plan.steps):
        if step.operation.name in changes and net.is_product(index):
            filters = net.constant(step.operands[1])
            assert filters is not None
            result[index] = changed_filters(step.operation.op, filters, changes[step.operation.name])
    return result


def _text(array: Array) -> str:
    return base64.b64encode(zlib.compress(array.astype(np.int8).tobytes(), 9)).decode("ascii")


def _has_filters(operation: Operation) -> bool:
    return isinstance(operation.op, Product) and operation.operands[1].is_constant


def _has_scales(operation: Operation) -> bool:
    type_ = operation.operands[0].type
    return isinstance(type_, TensorType) and isinstance(type_.element, UniformPerAxis)
