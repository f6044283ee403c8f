"""Compiled files with several networks or shapes: combine, select, extract."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuc.api.chip import Chip, LoadedModel, NetworkEntry
from tpuc.errors import TpucError, UsageError
from tpuc.files import file_stem, write_all

from tpuc_driver.data import ARRAYS, array_shapes
from tpuc_driver.session.artifacts import Described, Description, artifact_files, read_artifact, write_artifact
from tpuc_driver.session.border import as_network


@dataclass(frozen=True)
class CompiledFile:
    """What a compiled file holds; networks are named by their places in `entries`."""

    chip: Chip
    path: Path
    data: bytes
    descriptions: Sequence[Description]
    entries: Sequence[NetworkEntry]
    is_trusted: bool = False
    """Does the user vouch for code in it?"""

    @staticmethod
    def read(chip: Chip, path: Path, trust: bool = False) -> CompiledFile:
        """A file for a chip; raises CorruptFile, or Unsupported for another chip's."""
        data, descriptions = read_artifact(chip, path)
        return CompiledFile(chip, path, data, descriptions, chip.networks(data, str(path)), trust)

    def load(self, place: int) -> LoadedModel:
        """One network in the simulator, with its own inputs and outputs where the file says them."""
        return as_network(self.container(place), self.description(place).border)

    def container(self, place: int) -> LoadedModel:
        """One network in the simulator, with the inputs and outputs that the chip's runtime is given."""
        loaded = self.chip.load_network(self.data, str(self.path), place)
        loaded.layers = self.description(place).layers
        loaded.is_trusted = self.is_trusted
        return loaded

    def description(self, place: int) -> Description:
        """What the file says of a network."""
        return self.descriptions[place] if place < len(self.descriptions) else Description()

    def shapes(self, place: int) -> tuple[tuple[int, ...], ...]:
        """Those of a network's inputs."""
        own = self.description(place).border.inputs
        return tuple(one.shape for one in own) or self.entries[place].shapes

    def described(self, place: int) -> Described:
        """How pictures become the inputs of a network."""
        return self.description(place).inputs

    def named(self, network: str | None) -> list[int]:
        """The places of one network; raises UsageError where the file has several names and none was said."""
        names = list(dict.fromkeys(entry.name for entry in self.entries))
        if network is None and len(names) > 1:
            raise UsageError(f"{self.path} contains several networks: {self.listed()}; choose one with --network NAME.")
        found = [place for place, entry in enumerate(self.entries) if network in (None, entry.name)]
        if not found:
            raise UsageError(f"{self.path}: no network '{network}' in it; there are {self.listed()}.")
        return found

    def listed(self) -> str:
        """All networks, for sentences."""
        return ", ".join(map(str, self.entries))


@dataclass(frozen=True)
class Choice:
    """Which network of a file to run, and the files of samples for it: their shapes say which of its shapes."""

    network: str | None = None
    inputs: tuple[Path, ...] = ()

    def place(self, file: CompiledFile) -> int:
        """The place of the network: that of the shapes which arrays have exactly, else of the smallest ones."""
        places = file.named(self.network)
        arrays = [path for path in self.inputs if path.suffix.lower() in ARRAYS] if len(places) > 1 else []
        given = {shape for path in arrays for shape in array_shapes(path).values()}
        exact = [place for place in places if given.issuperset(file.shapes(place))]
        return min(exact or places, key=lambda place: sum(map(math.prod, file.entries[place].shapes)))


FIRST = Choice()


def combine(files: Sequence[CompiledFile], output: Path) -> None:
    """Write one file with the networks of several; raises UsageError for files of different chips."""
    chip = files[0].chip
    for one in files:
        if one.chip.description.name != chip.description.name:
            raise UsageError(
                f"{one.path} is for chip '{one.chip.description.name}', and {files[0].path} for "
                f"'{chip.description.name}'; combine files for one chip."
            )
    try:
        data = chip.combine([one.data for one in files])
    except TpucError as error:
        raise type(error)(f"{', '.join(str(one.path) for one in files)}: {error}") from error
    known = {entry: one.description(place) for one in files for place, entry in enumerate(one.entries)}
    write_artifact(chip, output, data, *(known.get(entry, Description()) for entry in chip.networks(data, str(output))))


def extract(file: CompiledFile, folder: Path) -> list[Path]:
    """Write a file for every network, and every set of its shapes; their paths, in the order of the networks."""
    try:
        parts = file.chip.extract(file.data)
    except TpucError as error:
        raise type(error)(f"{file.path}: {error}") from error
    names = [name for name, _ in parts]
    files: dict[Path, bytes] = {}
    paths: list[Path] = []
    for place, (name, data) in enumerate(parts):
        shape = f"_{'_'.join(map(_shown, file.entries[place].shapes))}" if names.count(name) > 1 else ""
        path = folder / f"{file_stem(name or file.path.stem)}{shape}{file.path.suffix}"
        files |= artifact_files(file.chip, path, data, file.description(place))
        paths.append(path)
    write_all(files)
    return paths


def _shown(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
