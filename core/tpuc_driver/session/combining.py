"""Combine compiled files, select networks in them, and extract these."""

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
    """Contents of a compiled file; networks are identified by their indices in `entries`."""

    chip: Chip
    path: Path
    data: bytes
    descriptions: Sequence[Description]
    entries: Sequence[NetworkEntry]
    is_trusted: bool = False
    """Whether the user vouches for code in the file."""

    @staticmethod
    def read(chip: Chip, path: Path, trust: bool = False) -> CompiledFile:
        """Read a file for a chip; raises CorruptFile, or Unsupported if it is for another chip."""
        data, descriptions = read_artifact(chip, path)
        return CompiledFile(chip, path, data, descriptions, chip.networks(data, str(path)), trust)

    def load(self, place: int) -> LoadedModel:
        """Load one network into the simulator, with the inputs and outputs of the network if the file states them."""
        return as_network(self.container(place), self.description(place).border)

    def container(self, place: int) -> LoadedModel:
        """Load one network into the simulator, with the inputs and outputs as the chip's runtime sees them."""
        loaded = self.chip.load_network(self.data, str(self.path), place)
        loaded.layers = self.description(place).layers
        loaded.is_trusted = self.is_trusted
        return loaded

    def description(self, place: int) -> Description:
        """Return the metadata of a network, empty if there is none."""
        return self.descriptions[place] if place < len(self.descriptions) else Description()

    def shapes(self, place: int) -> tuple[tuple[int, ...], ...]:
        """Return the input shapes of a network."""
        own = self.description(place).border.inputs
        return tuple(one.shape for one in own) or self.entries[place].shapes

    def described(self, place: int) -> Described:
        """Return the preprocessing of a network's inputs."""
        return self.description(place).inputs

    def named(self, network: str | None) -> list[int]:
        """Return the indices of one network, one per set of shapes; raises UsageError if the name is unknown, or
        missing although the file has several networks.
        """
        names = list(dict.fromkeys(entry.name for entry in self.entries))
        if network is None and len(names) > 1:
            raise UsageError(f"{self.path} contains several networks: {self.listed()}; choose one with --network NAME.")
        found = [place for place, entry in enumerate(self.entries) if network in (None, entry.name)]
        if not found:
            raise UsageError(f"{self.path}: contains no network '{network}'; choose one of {self.listed()}.")
        return found

    def listed(self) -> str:
        """List all networks for messages."""
        return ", ".join(map(str, self.entries))


@dataclass(frozen=True)
class Choice:
    """Choice of a network in a file; the shapes in the input files select one of its sets of shapes."""

    network: str | None = None
    inputs: tuple[Path, ...] = ()

    def place(self, file: CompiledFile) -> int:
        """Return the index of the network whose shapes the arrays match exactly, else of the one with the smallest
        shapes.
        """
        places = file.named(self.network)
        arrays = [path for path in self.inputs if path.suffix.lower() in ARRAYS] if len(places) > 1 else []
        given = {shape for path in arrays for shape in array_shapes(path).values()}
        exact = [place for place in places if given.issuperset(file.shapes(place))]
        return min(exact or places, key=lambda place: sum(map(math.prod, file.entries[place].shapes)))


FIRST = Choice()


def combine(files: Sequence[CompiledFile], output: Path) -> None:
    """Write the networks of several files to one file; raises UsageError if the files are for different chips."""
    chip = files[0].chip
    for one in files:
        if one.chip.description.name != chip.description.name:
            raise UsageError(
                f"{one.path} is for chip '{one.chip.description.name}', but {files[0].path} for "
                f"'{chip.description.name}'; combine files for one chip."
            )
    try:
        data = chip.combine([one.data for one in files])
    except TpucError as error:
        raise type(error)(f"{', '.join(str(one.path) for one in files)}: {error}") from error
    known = {entry: one.description(place) for one in files for place, entry in enumerate(one.entries)}
    write_artifact(chip, output, data, *(known.get(entry, Description()) for entry in chip.networks(data, str(output))))


def extract(file: CompiledFile, folder: Path) -> list[Path]:
    """Write one file per network and set of shapes; returns their paths in the order of the networks."""
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
