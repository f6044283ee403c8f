"""Names of plugins, resolved lazily: what is installed, what a name stands for, which tables take part."""

from __future__ import annotations

from tpuc.registry.groups import GROUPS, Group
from tpuc.registry.offers import Offer, installed_offers
from tpuc.registry.registry import ANY_CHIP, Registry, Row, left_out, tell_left_out
from tpuc.registry.tables import Cell

__all__ = [
    "ANY_CHIP",
    "GROUPS",
    "Cell",
    "Group",
    "Offer",
    "Registry",
    "Row",
    "installed_offers",
    "left_out",
    "tell_left_out",
]
