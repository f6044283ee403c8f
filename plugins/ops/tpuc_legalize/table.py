"""The table that the legalizations of this package fill."""

from __future__ import annotations

from tpuc.api import ANY_CHIP, LegalizationTable

TABLE = LegalizationTable(ANY_CHIP, "top")
