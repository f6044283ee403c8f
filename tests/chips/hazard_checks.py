"""The proof over waits on whole files, for every chip: removals that matter are refused, and so are such files.

A chip's tests inherit `HazardConformance` and say what is theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from tpuc.api import Command, HazardError, Instruction, derive_waits
from tpuc_driver.cli import main
from tpuc_driver.session import Session
from tpuc_plan.generate_code import GenerateCode

from tests.chips.mutants import Mutant, Subject, try_mutants
from tests.conftest import Proofs


def without_waits(instructions: Sequence[Instruction]) -> list[Command]:
    """Numbered commands of which none waits."""
    return [replace(command, wait=0) for command in derive_waits(instructions)]


class RemovalConformance(ABC):
    """What becomes of files of any chip without some of their waits, by our simulator or by the vendor's model."""

    chip: ClassVar[str]
    mode: ClassVar[str]
    others: ClassVar[Sequence[Path]]
    """Files of other makers; the first has eight mutants that matter."""
    unseen: ClassVar[int] = 0
    """Mutants of the digits that change bytes of memory, but by chance no result."""
    idle: ClassVar[int] = 0
    """Mutants of the digits whose conflict changes no byte: bounds of casts leave these inputs as they are."""

    @abstractmethod
    def subject(self, data: bytes) -> Subject:
        """A file as a program for mutants."""

    def session(self) -> Session:
        return Session(chip=self.chip, quantize=self.mode)

    def digits(self, digits_onnx: Path) -> Subject:
        session = self.session()
        return self.subject(session.build(session.transform(digits_onnx)).data)

    def test_every_removal_that_matters_is_refused(self, digits_onnx: Path) -> None:
        """Waits are the fewest: whatever they order is a conflict, so all mutants are refused that order less."""
        missed: list[str] = []
        tally = try_mutants(self.digits(digits_onnx), missed=missed)
        assert not missed
        assert tally.missed == 0
        assert tally.refused == tally.shown + self.idle == tally.removed - tally.repeated > 20
        assert tally.results == tally.shown - self.unseen

    def test_every_removal_from_a_file_of_another_maker_is_refused_if_it_matters(self) -> None:
        tally = try_mutants(self.subject(self.others[0].read_bytes()))
        assert tally.missed == 0
        assert tally.refused == tally.results == 8


class HazardConformance(RemovalConformance):
    """What holds for the files of any chip."""

    derives: ClassVar[str]
    """Where the chip takes `derive_waits` from."""
    hazard: ClassVar[str]
    """What is said of `unordered()`, behind the path."""

    @abstractmethod
    def unordered(self) -> bytes:
        """A file with input `x`, 1x8x2x16 bytes, whose commands wait for nothing."""

    def test_mutants_that_pass_a_blind_proof_are_missed(
        self, digits_onnx: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        subject = self.digits(digits_onnx)
        monkeypatch.setattr(Mutant, "is_refused", False)
        missed: list[str] = []
        tally = try_mutants(subject, 3, missed)
        assert tally.refused == 0
        assert tally.missed == len(missed) > 5

    def test_files_of_other_makers_have_no_hazard(self) -> None:
        assert self.others
        for path in self.others:
            Session().open(path)[1].check()

    def test_a_file_with_a_hazard_is_not_run_but_can_be_looked_at(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path, x = tmp_path / f"net{self.others[0].suffix}", tmp_path / "x.npz"
        path.write_bytes(self.unordered())
        np.savez(x, x=np.zeros((1, 8, 2, 16), np.int8))
        sentence = f"{path}: {self.hazard}"
        assert main(["run", "--model", str(path), "--input", str(x), "-o", str(tmp_path / "y.npz")]) == 1
        assert capsys.readouterr().err.splitlines()[-1] == f"tpuc: {sentence}"
        assert not (tmp_path / "y.npz").exists()
        assert main(["profile", str(path)]) == 0
        assert capsys.readouterr().err == f"{sentence}. Results depend on which engine is faster.\n"
        assert main(["disasm", str(path)]) == 0
        assert capsys.readouterr().err == ""

    def test_a_file_with_a_hazard_is_not_written(
        self, digits_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proofs: Proofs
    ) -> None:
        """The command refuses it; and in all tests a file is refused that is made in any other way."""
        monkeypatch.setattr(self.derives, without_waits)
        session = self.session()
        expected = "may run at the same time and both use"
        session.build(session.transform(digits_onnx))
        with pytest.raises(HazardError, match=f"file compiled for {self.chip}: .* {expected}"):
            proofs.finish()
        monkeypatch.setattr(GenerateCode, "_generate", proofs.generate)
        path = tmp_path / f"net{self.others[0].suffix}"
        with pytest.raises(HazardError, match=rf"{path.name}: \w+ 0: .* {expected}"):
            self.session().compile(digits_onnx, path)
        assert not path.exists()
