"""Mutants of waits on the functional models of the vendors, for every chip."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.chips.hazard_checks import RemovalConformance
from tests.chips.mutants import Subject


class OracleProgram(Subject, Protocol):
    """A program on a functional model."""

    def close(self) -> None:
        """The model is needed no more."""
        ...


class OracleRemovalConformance(RemovalConformance):
    """A chip's tests say how a file becomes a program on its model."""

    @abstractmethod
    def on_oracle(self, data: bytes, folder: Path) -> OracleProgram:
        """A file on the model in a folder of tools."""

    @pytest.fixture(autouse=True)
    def _models(self, oracle_dir: Path) -> Iterator[None]:
        self._folder, self._made = oracle_dir, list[OracleProgram]()
        yield
        for program in self._made:
            program.close()

    def subject(self, data: bytes) -> Subject:
        self._made.append(self.on_oracle(data, self._folder))
        return self._made[-1]
