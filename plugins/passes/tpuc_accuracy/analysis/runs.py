"""Compare the two forms of a network, for commands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from tpuc.api import (
    LAYER_ERRORS,
    QUANTIZED,
    SAMPLES,
    UsageError,
)
from tpuc_driver.api.host import Session, calibrated_on, inputs_of, samples_in, seen_among
from tpuc_prequantized.common import has_scales

from tpuc_accuracy.analysis.stored_values import stored_layers


def compare_layers(session: Session, exact: Path, quantized: Path, inputs: Sequence[Path], count: int) -> list[Any]:
    """The errors of each layer of a TPU module against its TOP module, with causes, by the pass `split-error`.

    For a pre-quantized TOP module, real values are compared without causes: the quantization is the network's own.
    """
    if not inputs:
        raise UsageError("no input to run both networks on; give --input FILE.")
    module = session.load(exact)
    rows = list(islice(samples_in(inputs_of(module), inputs, session.registry), count))
    tpu = session.load(quantized)
    if remark := seen_among(inputs_of(module), inputs, calibrated_on(tpu), session.registry):
        session.remark(remark)
    if has_scales(module):
        session.remark(
            f"{exact} is already quantized: its integers are compared by the real values they represent; causes and "
            "remedies apply to calibrated networks only"
        )
        return stored_layers(module, tpu, rows)
    context = session.context({QUANTIZED: tpu, SAMPLES: rows})
    session.manager(context).run(module, ["split-error"], "compare")
    return context.result(LAYER_ERRORS)
