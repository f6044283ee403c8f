"""What a proposer of calibration tables is: one class that makes candidates from what a search has observed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from tpuc_quantize.calibration.candidate import Candidate, Entries
from tpuc_quantize.calibration.search import Search

__all__ = ["Candidate", "Entries", "Proposer", "Search"]


class Proposer(ABC):
    """Registered by name in `tpuc.proposers`. `round` is the round of the race that a proposer runs in which the race
    does not name: behind the ones that it names.
    """

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    round: ClassVar[str] = "tables"

    @abstractmethod
    def propose(self, search: Search) -> Iterable[Candidate]:
        """Candidates, best guesses first; `search.best` is the one that was selected before this round. Nothing where
        the idea does not apply.
        """
