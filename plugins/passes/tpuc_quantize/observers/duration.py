"""Estimates how long a network runs on the host."""

from __future__ import annotations

from tpuc.api import Module

from tpuc_quantize.options.budgets import operations_of

OPERATIONS_PER_SECOND = 40e9
"""Of one core of a server, as budgets count them."""


def seconds_of(module: Module) -> float:
    """About how long a network runs, from the network alone: the same on every machine."""
    return operations_of(module) / OPERATIONS_PER_SECOND
