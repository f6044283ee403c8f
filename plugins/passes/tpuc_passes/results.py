"""What these passes leave for each other."""

from __future__ import annotations

from collections.abc import Collection

from tpuc.api import ResultKey

MODE: ResultKey[str] = ResultKey("mode")
"""The integer mode that a quantised network asks for."""
FLOAT_SUMS: ResultKey[Collection[str]] = ResultKey("float_sums")
"""Products that need not give bytes."""
