"""Calibrate a TOP module on samples."""

from __future__ import annotations

from tpuc.ir import Module
from tpuc.ir.fused_postprocess import network_alone
from tpuc.schedule.results import CALIBRATION_TABLE

from tpuc_driver.data import sets_of
from tpuc_driver.session.configuration import Configuration
from tpuc_driver.session.results import CHECK_SAMPLES, SEEN_SAMPLES
from tpuc_driver.session.settings import CalibrationSettings
from tpuc_driver.session.values import Calibrated


def calibrate(configuration: Configuration, module: Module, settings: CalibrationSettings) -> Calibrated:
    """Run the pass `calibrate`; returns the table and the samples to check it on."""
    context = configuration.context()
    definition = configuration.registry.get("tpuc.passes", "calibrate")
    options = {
        "dataset": tuple(one.text() for one in sets_of(settings.get("dataset"))),
        "data_list": str(settings.get("data_list") or ""),
        "input_num": settings.get("input_num", 0),
        "method": settings.get("method", "kld"),
        "histogram_bin_num": settings.get("histogram_bin_num", 2048),
        **(settings.get("options") or {}),
    }
    with configuration.clock.timed("calibrate"):
        configuration.manager(context).run(network_alone(module), [definition(**options)], "calibrate")
    return Calibrated(context.result(CALIBRATION_TABLE), context.find(CHECK_SAMPLES), context.find(SEEN_SAMPLES))
