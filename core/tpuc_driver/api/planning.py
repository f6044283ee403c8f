"""What compilations of one session know from each other about planning."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tpuc.schedule.results import ResultKey

PLANS: ResultKey[dict[Hashable, Any]] = ResultKey("plans")
"""Plans by the structure of the networks that they were made for. Passes look a plan up, or add theirs."""
