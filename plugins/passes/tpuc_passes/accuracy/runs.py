"""Where the accuracy went, and how to get it back: mixed-precision search and comparison of a network's two forms."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
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
    write_atomic,
)
from tpuc.api.host import Session, inputs_of, samples_in

from tpuc_passes.accuracy.stored import stored_layers
from tpuc_passes.quantised import has_scales


def search_quantise_table(
    session: Session, module: Module, calibration_table: Any, *, latencies: bool = False, options: Mapping[str, Any]
) -> Any:
    """The losses of layers and the networks with the worst of them in float, by the pass `search-quantise-table`.

    With `latencies` each network is compiled and timed; those that the chip cannot compile yet stay without.
    """
    if has_scales(module):
        raise UsageError(
            f"{module.name}: is quantised already and keeps its integers, so there are no layers to choose; compile it "
            "without a quantise table."
        )
    context = session.context({CALIBRATION_TABLE: calibration_table})
    definition = session.registry.get("tpuc.passes", "search-quantise-table")
    session.manager(context).run(module, [definition(**options)], "search")
    found = context.result(QUANTISE_SEARCH)
    if not latencies:
        return found
    timed = tuple(
        dataclasses.replace(point, milliseconds=_milliseconds(session, module, calibration_table, found, point))
        for point in session.progress(found.points, "timing", len(found.points))
    )
    return dataclasses.replace(found, points=timed)


def _milliseconds(session: Session, module: Module, table: Any, found: Any, point: Any) -> float | None:
    with tempfile.TemporaryDirectory(prefix="tpuc-") as folder:
        path = Path(folder) / "quantise_table"
        write_atomic(path, found.table_text(point))
        try:
            data = session.build(module, table, path).data
        except Unsupported as error:
            session.remark(f"no latency: {error}")
            return None
    cycles = session.chip.load(data).timeline(session.chip.profiles[0]).cycles
    return cycles / session.chip.description.clock_hz * 1000


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
    if has_scales(module):
        session.remark(
            f"{exact}: is quantised already, so its integers are compared by what they mean; reasons and remedies are "
            "for networks that were calibrated"
        )
        return stored_layers(module, tpu, rows)
    context = session.context({QUANTISED: tpu, SAMPLES: rows})
    session.manager(context).run(module, ["split-error"], "compare")
    return context.result(LAYER_ERRORS)
