"""The table that the legalizations of this package fill."""

from __future__ import annotations

from tpuc.api import ANY_CHIP, LegalisationTable

TABLE = LegalisationTable(ANY_CHIP, "top")
