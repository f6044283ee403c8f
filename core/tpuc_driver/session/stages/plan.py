"""Plan tiles, residency, and addresses of a TPU module."""

from __future__ import annotations

from tpuc.schedule.results import CONSTANTS

from tpuc_driver.api.planning import PLANS
from tpuc_driver.session.configuration import Configuration
from tpuc_driver.session.values import SharedConstants, Staged


def plan(configuration: Configuration, lowered: Staged, shared: SharedConstants | None = None) -> Staged:
    """Plan a lowered module in place; `shared` comes from other compilations that share memory."""
    context = configuration.context(dict(lowered.results), lowered.mode)
    if shared is not None:
        context.leave(CONSTANTS, shared.image)
        context.leave(PLANS, shared.plans)
    with configuration.clock.timed("finalize"):
        configuration.manager(context).run_pipeline("finalize", lowered.module)
    return Staged(lowered.module, lowered.mode, context.results)
