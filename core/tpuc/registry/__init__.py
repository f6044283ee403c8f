"""Plugin names, resolved lazily: installed packages, name lookup, and active tables."""

from __future__ import annotations

from tpuc.registry.groups import GROUPS as GROUPS
from tpuc.registry.groups import Group as Group
from tpuc.registry.offers import Offer as Offer
from tpuc.registry.offers import installed_offers as installed_offers
from tpuc.registry.registry import ANY_CHIP as ANY_CHIP
from tpuc.registry.registry import Registry as Registry
from tpuc.registry.registry import Row as Row
from tpuc.registry.registry import left_out as left_out
from tpuc.registry.registry import tell_left_out as tell_left_out
from tpuc.registry.tables import Cell as Cell
