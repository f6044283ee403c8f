"""Plan tiles, residency, and addresses of a TPU module."""

from __future__ import annotations

from tpuc.schedule.results import CONSTANTS, ConstantImage

from tpuc_driver.session.configuration import Configuration
from tpuc_driver.session.values import Staged


def plan(configuration: Configuration, lowered: Staged, constants: ConstantImage | None = None) -> Staged:
    """Plan a lowered module in place; `constants` come from other compilations that share their memory."""
    context = configuration.context(dict(lowered.results), lowered.mode)
    if constants is not None:
        context.leave(CONSTANTS, constants)
    with configuration.clock.timed("finalize"):
        configuration.manager(context).run_pipeline("finalize", lowered.module)
    return Staged(lowered.module, lowered.mode, context.results)
