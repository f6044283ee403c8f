"""Compile the fastest network that reaches a required accuracy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tpuc.errors import UsageError
from tpuc.ir import Module
from tpuc.schedule.results import CALIBRATION_TABLE, COMPILE, QUANTIZE_TABLE, ResultKey

from tpuc_driver.data import SampleSource, sets_of
from tpuc_driver.session.configuration import Configuration
from tpuc_driver.session.reports import AccuracyReport
from tpuc_driver.session.results import ACCURACY, CHECK_SAMPLES
from tpuc_driver.session.settings import CompileSettings
from tpuc_driver.session.values import Built

MOST_TRIALS = 40


class Promised(NamedTuple):
    """Result of the search: calibration table, modes of ops, accuracy report, and held-out samples."""

    table: Any
    modes: Mapping[str, str]
    report: AccuracyReport
    held_out: SampleSource | None


def meet_accuracy(
    configuration: Configuration,
    module: Module,
    settings: CompileSettings,
    build: Callable[[Module, Any, Mapping[str, str]], Built],
) -> Promised:
    """Find the cheapest network that is accurate enough with the pass `meet-accuracy`, which may change the module's
    filters. `build` compiles a network with a calibration table and modes of ops.

    Raises UsageError without samples or without a timing model, CalibrationError if no network is accurate enough.
    """
    if settings.get("dataset") is None and settings.get("data_list") is None:
        raise UsageError("--min-accuracy needs samples to measure on; give --dataset or --data-list.")
    chip = configuration.chip
    if not chip.profiles:
        raise UsageError(
            "--min-accuracy needs a timing model to find the fastest network, and chip "
            f"'{chip.description.name}' has none; compare networks with `tpuc eval`."
        )

    def compiled(module: Module, table: Any, modes: Mapping[str, str]) -> tuple[Module, int]:
        built = build(module, table, modes)
        return built.module, chip.load(built.data).timeline(chip.profiles[0]).cycles

    results: dict[ResultKey[Any], Any] = {COMPILE: compiled}
    if (table := settings.get("calibration_table")) is not None:
        results[CALIBRATION_TABLE] = table
    context = configuration.context(results, configuration.mode_for(module))
    definition = configuration.registry.get("tpuc.passes", "meet-accuracy")
    options = {
        "dataset": tuple(one.text() for one in sets_of(settings.get("dataset"))),
        "data_list": str(settings.get("data_list") or ""),
        "input_num": settings.get("input_num", 0),
        "method": settings.get("calibration_method", "kld"),
        "min_accuracy": settings.get("min_accuracy") or "",
        "max_trials": settings.get("max_trials") or MOST_TRIALS,
        "measure": settings.get("measure") or "decisions",
        "point_estimate": bool(settings.get("accept_point_estimate")),
    }
    with configuration.clock.timed("meet accuracy"):
        configuration.manager(context).run(module, [definition(**options)], "calibrate")
    table, modes, report = context.find(CALIBRATION_TABLE), context.result(QUANTIZE_TABLE), context.result(ACCURACY)
    return Promised(table, modes, report, context.find(CHECK_SAMPLES))
