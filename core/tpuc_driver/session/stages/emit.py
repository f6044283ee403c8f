"""Emit the compiled file of a planned module."""

from __future__ import annotations

from tpuc.schedule.results import ARTIFACT, CONSTANTS, MEMORY_PLAN, RECORDED, ConstantImage

from tpuc_driver.session.configuration import Configuration
from tpuc_driver.session.values import Built, Staged


def emit(configuration: Configuration, planned: Staged) -> tuple[Built, ConstantImage | None]:
    """Run the pass `generate-code`; returns the chip's file, and its constants for compilations that share them."""
    context = configuration.context(dict(planned.results), planned.mode)
    with configuration.clock.timed("generate"):
        configuration.manager(context).run(planned.module, ["generate-code"], "generate")
    data, recorded = context.result(ARTIFACT), context.find(RECORDED)
    instructions = recorded[1] if recorded is not None and recorded[0] is data else None  # else a hook changed the file
    return Built(planned.module, data, context.find(MEMORY_PLAN), instructions), context.find(CONSTANTS)
