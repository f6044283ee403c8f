"""Check options before compilation, and compare the predictions of a quantized network with the float network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.errors import CalibrationError
from tpuc.ir import Module
from tpuc.ir.fused_postprocess import network_alone
from tpuc.schedule.results import CALIBRATION_TABLE, QUANTIZED, ResultKey

from tpuc_driver.data import Labels, SampleSource
from tpuc_driver.session.configuration import Configuration
from tpuc_driver.session.reports import FEW_KEPT, SelfCheck
from tpuc_driver.session.results import CHECK_SAMPLES, SELF_CHECK


def fitted_labels(module: Module, labels: Labels) -> Sequence[str]:
    """Return one name per class of a network that gives one score per class; raises UsageError if their number differs.

    For other networks the number of classes is unknown, and all names are returned.
    """
    outputs = network_alone(module).main.outputs
    size = outputs[0].tensor.size if len(outputs) == 1 else 0
    is_vector = size > 1 and size == max(outputs[0].tensor.dims)
    return labels.fitted(size) if is_vector else labels.names


def self_check(
    configuration: Configuration,
    top: Module,
    tpu: Module | None,
    table: Any,
    samples: SampleSource,
    *,
    tuned: bool | None,
    least: float = 0.0,
) -> SelfCheck | None:
    """Compare the TOP module with its TPU module, or with its form quantized by the table, by the pass
    `check-decisions`. Returns None if nothing can be compared.

    Raises CalibrationError if the networks agree on less than the share `least` of an output's predictions, or if
    `least` is given and the samples cannot show it; a low agreement is remarked.
    """
    results: dict[ResultKey[Any], Any] = {CHECK_SAMPLES: samples}
    if table is not None:
        results[CALIBRATION_TABLE] = table
    if tpu is not None:
        results[QUANTIZED] = tpu
    context = configuration.context(results)
    definition = configuration.registry.get("tpuc.passes", "check-decisions")
    with configuration.clock.timed("self-check"):
        configuration.manager(context).run(top, [definition(tuned=tuned)], "verify")
    found = context.find(SELF_CHECK)
    if found is None:
        return None
    if least and not found.shows:
        raise CalibrationError(f"{found.text()}. --min-agreement {least:g} makes this an error")
    if found.agreement < least:
        raise CalibrationError(f"{found.complaint()}. --min-agreement {least:g} makes this an error")
    if not found.shows:
        configuration.remark(found.text())
    elif found.agreement < FEW_KEPT:
        configuration.remark(found.complaint())
    return found
