"""The base class of proposers, which turn observations of a search into candidate calibration tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from tpuc_quantize.calibration.candidate import Candidate, Entries
from tpuc_quantize.calibration.search import Search

__all__ = ["Candidate", "Entries", "Proposer", "Search"]


class Proposer(ABC):
    """Registered by name in `tpuc.proposers`. `round` is the round of the race in which a proposer runs that the race
    does not list, after the listed ones.
    """

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    round: ClassVar[str] = "tables"

    @abstractmethod
    def propose(self, search: Search) -> Iterable[Candidate]:
        """Candidates, best guesses first; `search.best` is the candidate selected in earlier rounds. Empty where the
        idea does not apply.
        """
