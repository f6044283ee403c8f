"""Search for float layers with the latency of each network on the chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpuc.api import CALIBRATION_TABLE, FLOAT_MODES, QUANTIZE_SEARCH, Module, ScalarType, Unsupported, UsageError
from tpuc_driver.api.host import Session, limit_of
from tpuc_lower.target.results import LATENCY
from tpuc_prequantized.common import has_scales
from tpuc_quantize.tables.table import as_table

from tpuc_accuracy.mixed_precision.search import Search


def search_quantize_table(
    session: Session, module: Module, calibration_table: Any, *, latencies: bool = False, options: Mapping[str, Any]
) -> Any:
    """The losses of layers and the networks with the worst of them in float, by the pass `search-quantize-table`.

    Where the chip has a timing model the networks found are timed, and layers use the float mode in which the whole
    network is fastest, unless `options` name one. With `latencies` the networks are the Pareto front of accuracy and
    latency, for which more are compiled and timed.
    """
    if has_scales(module):
        raise UsageError(
            f"{module.name} is already quantized and keeps its integers, so there are no layers to choose; compile it "
            "without --quantize-table."
        )
    context = session.context({CALIBRATION_TABLE: calibration_table})
    mode = str(options.get("float_mode") or "")
    if session.chip.profiles:
        mode = mode or fastest_float_mode(session, module, calibration_table)
    timer = Timer(session, module, calibration_table, mode)
    if latencies:
        context.leave(LATENCY, timer)
    definition = session.registry.get("tpuc.passes", "search-quantize-table")
    session.manager(context).run(module, [definition(**{**options, "float_mode": mode})], "search")
    found: Search = context.result(QUANTIZE_SEARCH)
    if latencies or not session.chip.profiles:
        return found
    times = [timer(point.floats) for point in found.points]
    if None in times:
        return found
    timed = tuple(replace(point, milliseconds=ms) for point, ms in zip(found.points, times, strict=True))
    return replace(found, points=timed)


def fastest_float_mode(session: Session, module: Module, calibration_table: Any) -> str:
    """The float mode in which the whole network is fastest by the chip's timing model, among those that can hold its
    values; the chip's usual one where none compiles.
    """
    table = as_table(calibration_table)
    entries = () if table is None else table.entries.values()
    largest = max((max(one.threshold, -one.minimum, one.maximum) for one in entries), default=0.0)
    names = [one.name for one in module.main.operations if one.results and one.operands]
    times: dict[str, float] = {}
    for mode in session.chip.description.modes:
        if mode not in FLOAT_MODES or largest > limit_of(ScalarType(mode)):
            continue
        found = Timer(session, module, calibration_table, mode)(names)
        if found is not None:
            times[mode] = found
    return min(times, key=lambda mode: times[mode], default=session.chip.description.float_mode or "")


@dataclass
class Timer:
    """Compiles a network with some ops in float and returns the latency of the chip's timing model. `mode` is that of
    these ops, empty for the chip's usual one.
    """

    session: Session
    module: Module
    table: Any
    mode: str = ""

    def __call__(self, floats: Sequence[str]) -> float | None:
        """Milliseconds; None, with a remark, for networks that the chip cannot compile."""
        chip = self.session.chip
        mode = self.mode or str(chip.description.float_mode)
        try:
            data = self.session.build(self.module, self.table, dict.fromkeys(floats, mode)).data
        except Unsupported as error:
            self.session.remark(f"no latency: {error}")
            return None
        return chip.load(data).timeline(chip.profiles[0]).cycles / chip.description.clock_hz * 1000
