"""Keep the tail after the last products in floats: 8 bits cannot represent decoded boxes and scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tpuc.api import (
    CALIBRATION_TABLE,
    FLOAT_MODES,
    QUANTIZE_TABLE,
    STORED_OUTPUTS,
    Module,
    Operation,
    Pass,
    PassContext,
    ShapeOnly,
)
from tpuc.api.boundary import is_postprocess
from tpuc_lower.lowering.cells import Cells
from tpuc_lower.special_values.coarse_outputs import coarse_outputs
from tpuc_lower.special_values.small_heads import SmallHead, small_head
from tpuc_lower.target.kernels import chip_of, runs_on_chip
from tpuc_lower.target.results import FLOAT_SUMS, MODE
from tpuc_ops.traits import Concatenates, ExtractsFeatures, StridedView, states
from tpuc_optimize.canonicalization.masks import behind_heavy, masked_scores
from tpuc_optimize.canonicalization.wide_structures import wide_structures

from tpuc_quantize.tables.table import as_table


@dataclass(frozen=True)
class TailOptions:
    """Cost limits of a float tail."""

    most_moved: int = 1 << 18
    """Elements copied as floats where bytes would do. The outputs of YOLOv5s at 640 pixels, 2.1 million, took 9 % more
    cycles of the whole network on bm1684x; those of detectors at 320 pixels took none.
    """


OPTIONS = TailOptions()
_HALF = "f16"


@dataclass(frozen=True)
class KeepTailFloat(Pass):
    """In the integer modes, compute ops in the chip's float mode that only such ops separate from the outputs.

    The ops are added to the result `quantize_table`, after the user's own entries. Ops that only move data keep the
    type of their operand; a tail of nothing else stays unchanged. If a box decoded to pixels shared an int8 tensor with
    a score in [0, 1], the score would have no resolution.

    Products before the tail whose results are only read as floats are listed in the result `float_sums`, if the chip
    can return their sums as floats, unless their outputs are returned as bytes (positions from 0 in the result
    `stored_outputs`) or too many of them are moved. Cheap last products are computed in floats: those of outputs with a
    coarse step (`coarse_outputs`), and in f16 those of pooled features (`small_head`), with the ops before them.
    """

    name = "keep-tail-float"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; changes only the results of the run."""
        table = as_table(context.find(CALIBRATION_TABLE))
        if context.find(MODE, "") or (table is not None and table.has_qat_scales):
            return False  # a network that is quantized already, or training, says itself what is float
        chip = chip_of(context, self.name).description
        if (float_mode := chip.float_mode) is None or context.options.get("quantize", "") in ("", *FLOAT_MODES):
            return False
        cells = Cells.of(context, self.name, str(context.options["quantize"]))
        behind = behind_heavy(module)
        tail = _tail(module)
        modes: dict[str, str] = dict(context.find(QUANTIZE_TABLE, {}))
        stored = context.find(STORED_OUTPUTS, frozenset())
        head = small_head(module) if _HALF in chip.modes else SmallHead()
        floats = [one for one in (*tail, *head.before) if one in behind and not _keeps_type(one)]
        found = dict.fromkeys((*floats, *coarse_outputs(module, cells, stored)), float_mode)
        found |= dict.fromkeys(head.products, _HALF)
        for operation, wide in found.items():
            if cells.computes(operation.op, wide):
                modes.setdefault(operation.name, wide)
        context.leave(QUANTIZE_TABLE, modes)
        floating = tail.keys() | head.products | head.before | masked_scores(module) | wide_structures(module)
        context.leave(FLOAT_SUMS, _float_sums(module, floating, modes, cells, stored))
        return False


def float_tail(module: Module) -> frozenset[str]:
    """The ops of a calibrated module that belong to the float tail, for a chip whose float mode has all of them."""
    behind = behind_heavy(module)
    return frozenset(one.name for one in _tail(module) if one in behind and not _keeps_type(one))


def _tail(module: Module) -> dict[Operation, None]:
    """Ops that only such ops separate from the outputs, the last one first."""
    tail: dict[Operation, None] = {}
    for operation in reversed(module.main.operations[:-1]):
        if not runs_on_chip(operation) or isinstance(operation.op, ExtractsFeatures):
            continue
        users = [user for result in operation.results for user in result.users]
        if all(user is module.main.terminator or user in tail for user in users):
            tail[operation] = None
    return tail


def _keeps_type(operation: Operation) -> bool:
    """True for moves, and a Concat whose operands share one range, where joining them as they are loses nothing."""
    if states(operation.op, StridedView) or not isinstance(operation.op, Concatenates):
        return states(operation.op, StridedView)
    return len({operand.tensor.element for operand in operation.operands}) == 1


def _float_sums(
    module: Module,
    floating: Collection[Operation],
    table: Mapping[str, str],
    cells: Cells,
    stored: Collection[int],
) -> frozenset[str]:
    """Integer ops whose lowerings have `float_sums` and whose results are only read as floats, directly or after moves
    of few elements. Outputs are read as floats, except at positions in `stored`; ops in `floating` may read floats.
    """
    terminator, floats = module.main.terminator, set[Operation]()

    def read_as_floats(operation: Operation) -> bool:
        uses = [use for result in operation.results for use in result.uses]
        return all(index not in stored if user is terminator else user in floats for user, index in uses)

    for operation in reversed(module.main.operations):
        if operation not in floating:
            continue
        if states(operation.op, StridedView, Concatenates) and operation.name not in table:
            stays = isinstance(operation.op, ShapeOnly)
            fits = stays or sum(result.tensor.size for result in operation.results) <= OPTIONS.most_moved
            is_float = fits and read_as_floats(operation)
        else:
            is_float = table.get(operation.name) in FLOAT_MODES or is_postprocess(operation)
        if is_float:
            floats.add(operation)
    return frozenset(
        operation.name
        for operation in module.main.operations
        if (cell := cells.lowering(operation.op, cells.mode)) is not None
        and cell.float_sums
        and table.get(operation.name) not in FLOAT_MODES
        and read_as_floats(operation)
    )
