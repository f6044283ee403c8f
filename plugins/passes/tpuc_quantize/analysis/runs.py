"""Runs accuracy analyses for commands: mixed-precision search, and comparison of a network's two forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tpuc.api import (
    CALIBRATION_TABLE,
    LAYER_ERRORS,
    QUANTISE_SEARCH,
    QUANTISED,
    SAMPLES,
    Module,
    Unsupported,
    UsageError,
)
from tpuc_driver.api.host import Session, calibrated_on, inputs_of, samples_in, seen_among
from tpuc_lower.target.results import LATENCY

from tpuc_quantize.analysis.stored_values import stored_layers
from tpuc_quantize.prequantized.common import has_scales


def search_quantise_table(
    session: Session, module: Module, calibration_table: Any, *, latencies: bool = False, options: Mapping[str, Any]
) -> Any:
    """The losses of layers and the networks with the worst of them in float, by the pass `search-quantise-table`.

    With `latencies` the networks are the front of accuracy and time, for which some are compiled and timed.
    """
    if has_scales(module):
        raise UsageError(
            f"{module.name}: is quantised already and keeps its integers, so there are no layers to choose; compile it "
            "without a quantise table."
        )
    context = session.context({CALIBRATION_TABLE: calibration_table})
    if latencies:
        context.leave(LATENCY, Timer(session, module, calibration_table, str(options.get("float_mode") or "")))
    definition = session.registry.get("tpuc.passes", "search-quantise-table")
    session.manager(context).run(module, [definition(**options)], "search")
    return context.result(QUANTISE_SEARCH)


@dataclass
class Timer:
    """Compiles a network with some ops in float, and asks the chip's timing model. `mode` is that of these ops, the
    chip's usual one if it is empty.
    """

    session: Session
    module: Module
    table: Any
    mode: str = ""

    def __call__(self, floats: Sequence[str]) -> float | None:
        """Milliseconds; None, with a remark, for what the chip cannot compile."""
        chip = self.session.chip
        mode = self.mode or str(chip.description.float_mode)
        try:
            data = self.session.build(self.module, self.table, dict.fromkeys(floats, mode)).data
        except Unsupported as error:
            self.session.remark(f"no latency: {error}")
            return None
        return chip.load(data).timeline(chip.profiles[0]).cycles / chip.description.clock_hz * 1000


def compare_layers(session: Session, exact: Path, quantised: Path, inputs: Sequence[Path], count: int) -> list[Any]:
    """How far each layer of a TPU module is from the TOP module it was made of, and why, by the pass `split-error`.

    Of a TOP module that is quantised already the integers are compared by what they mean, and no reasons are found: the
    steps are the network's own.
    """
    if not inputs:
        raise UsageError("nothing to run both networks on; give --input FILE.")
    module = session.load(exact)
    rows = list(islice(samples_in(inputs_of(module), inputs, session.registry), count))
    tpu = session.load(quantised)
    if told := seen_among(inputs_of(module), inputs, calibrated_on(tpu), session.registry):
        session.remark(told)
    if has_scales(module):
        session.remark(
            f"{exact}: is quantised already, so its integers are compared by what they mean; reasons and remedies are "
            "for networks that were calibrated"
        )
        return stored_layers(module, tpu, rows)
    context = session.context({QUANTISED: tpu, SAMPLES: rows})
    session.manager(context).run(module, ["split-error"], "compare")
    return context.result(LAYER_ERRORS)
