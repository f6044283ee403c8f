"""Models that consist of several networks, such as language models: compiled one after another into one file."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from tpuc.api.chip import FLOAT_MODES, Chip
from tpuc.api.frontend import NetworkPart
from tpuc.errors import Unsupported, UsageError, visible_lines
from tpuc.files import write_all
from tpuc.ir import Module

from tpuc_driver.session.artifacts import Description, artifact_files, trailer_of
from tpuc_driver.session.boundary import Boundary
from tpuc_driver.session.configuration import Configuration
from tpuc_driver.session.reports import CompileReport
from tpuc_driver.session.settings import CompileSettings, DeploySettings
from tpuc_driver.session.values import Built, Finished, SharedConstants

SINGLE = (
    *("dataset", "data_list", "calibration_table", "quantize_table", "min_accuracy", "min_agreement", "test_input"),
    *("post", "output_names", "input_names", "fixed_inputs", "preprocess"),
)
"""Settings that make sense for one network only."""
_COPIED = 1 << 20
"""Bytes that are copied at once."""


@dataclass(frozen=True)
class PartsReport(CompileReport):
    """What compiling all networks of a model gave. There are no cycles in all: a run uses networks many times."""

    parts: tuple[CompileReport, ...] = ()

    def text(self) -> str:
        """One line for each network."""
        memory = ", ".join(f"{name} {size:,} B" for name, size in self.memory.items())
        head = f"{self.model}: {len(self.parts)} networks, {self.ops} ops, {self.mode} for {self.chip}"
        lines = [head, *(_line(part) for part in self.parts), f"memory: {memory}"]
        return visible_lines(lines)

    def to_json(self) -> Mapping[str, Any]:
        """Plain values, with those of every network."""
        return {**super().to_json(), "networks": [part.to_json() for part in self.parts]}


def _line(part: CompileReport) -> str:
    cycles = "" if part.cycles is None else f", predicted {part.cycles:,} cycles"
    return f"network {part.network}: {part.ops} ops{cycles}"


@dataclass(frozen=True)
class PartsCompiler:
    """Compiles parts for a file `model`; `optimize`, `build` and `finish` are the stages of one network."""

    configuration: Configuration
    model: Path
    settings: CompileSettings
    optimize: Callable[[Module], None]
    build: Callable[[Module, DeploySettings], Built]
    finish: Callable[[Module, DeploySettings], Finished]

    def run(self, parts: Iterable[NetworkPart], companions: Mapping[str, bytes]) -> PartsReport:
        """Compile and write all networks, and `companions` into the folder `config` beside the file.

        Raises Unsupported for settings and modes that several networks do not have, UsageError where the folder holds
        files of another model.

        Networks of a group are laid out behind the constants of all of them, so that a file keeps equal ones once.
        """
        for name in SINGLE:
            if self.settings.get(name):
                raise Unsupported(
                    f"{self.model}: the model compiles to several networks, but '{name}' applies to one; leave it out."
                )
        self._check_chip()
        beside = {self.model.parent / "config" / name: content for name, content in companions.items()}
        for path, content in beside.items():
            if path.exists() and not (path.is_file() and path.read_bytes() == content):
                raise UsageError(f"{path}: this file is not from this model; compile into another folder.")
        output = _Output(self, parts)
        if self.configuration.chip.allows_trailer:
            write_all({self.model: output.write, **beside})
        else:
            write_all({**output.files(), **beside})
        self.configuration.registry.hooks.hook.artifact_written(path=self.model, kind="model")
        return self._report(output.reports, output.size)

    def compiled(self, parts: Iterable[NetworkPart]) -> Iterator[tuple[bytes, Description, CompileReport]]:
        """Yield the file of each network, its description, and the report on it."""
        plans: dict[Hashable, Any] = {}
        for _, group in groupby(parts, lambda part: part.group):
            yield from self._group([*group], SharedConstants(plans=plans))

    def _check_chip(self) -> None:
        """Raise Unsupported for a chip whose files hold one network."""
        chip = self.configuration.chip
        if type(chip).combine is Chip.combine:
            raise Unsupported(
                f"{self.model}: the model compiles to several networks, and files for chip '{chip.description.name}' "
                "hold one; choose another chip."
            )

    def _group(
        self, parts: Sequence[NetworkPart], shared: SharedConstants
    ) -> Iterator[tuple[bytes, Description, CompileReport]]:
        steps: list[tuple[Module, DeploySettings]] = []
        for part in parts:
            self.optimize(part.module)
            settings = DeploySettings(boundary=self._boundary(part), constants=shared)
            if part.in_f32:
                settings["quantize_table"] = dict.fromkeys((one.name for one in part.module.main.operations), "f32")
            steps.append((part.module, settings))
        for module, step in steps[:-1]:  # the last one knows the constants of all others
            self.build(module, step)
        done = [_kept(self.finish(module, step)) for module, step in reversed(steps)]
        yield from reversed(done)

    def _boundary(self, part: NetworkPart) -> Boundary:
        mode = self.configuration.mode_for(part.module)
        if mode not in FLOAT_MODES:
            raise Unsupported(
                f"{self.model}: models of several networks compile in {', '.join(sorted(FLOAT_MODES))}, not in {mode}; "
                "give --quantize f16."
            )
        types = [
            tuple(mode if one == "mode" else one for one in side) for side in (part.input_types, part.output_types)
        ]
        return Boundary(input_types=types[0], output_types=types[1])

    def _report(self, parts: Sequence[CompileReport], file_bytes: int) -> PartsReport:
        fields = {field.name: getattr(parts[0], field.name) for field in dataclasses.fields(CompileReport)}
        activations = max(part.memory.get("activations", 0) for part in parts)
        memory = {"largest activations": activations, "file": file_bytes}
        fields |= {"ops": sum(part.ops for part in parts), "memory": memory, "cycles": None, "milliseconds": None}
        fields |= {"inputs": (), "outputs": (), "memory_plan": None, "network": self.model.stem}
        fields |= {"seconds": dict(self.configuration.clock.seconds)}
        return PartsReport(**fields, parts=tuple(parts))


def _kept(one: Finished) -> tuple[bytes, Description, CompileReport]:
    """Return what is needed of a network until the file is complete; modules and simulators take memory."""
    return one.built.data, one.description, one.report


class _Output:
    """The compiled file of a model, written while its networks are compiled."""

    def __init__(self, compiler: PartsCompiler, parts: Iterable[NetworkPart]) -> None:
        self._compiler, self._parts = compiler, parts
        self._descriptions: list[Description] = []
        self.reports: list[CompileReport] = []
        self.size = 0

    def write(self, stream: BinaryIO) -> None:
        """Write the file. Constants, which follow all else, wait in a file of their own on the same disk."""
        folder = self._compiler.model.parent
        with TemporaryFile(dir=folder if os.access(folder, os.W_OK) else None) as rest:
            start = self._compiler.configuration.chip.combine_parts(self._networks(), rest)
            self.size = len(start) + rest.tell()
            stream.write(start)
            rest.seek(0)
            shutil.copyfileobj(rest, stream, _COPIED)
        stream.write(trailer_of(self._descriptions))

    def files(self) -> Mapping[Path, bytes]:
        """Return the file, and its metadata beside it."""
        chip = self._compiler.configuration.chip
        data = chip.combine([*self._networks()])
        self.size = len(data)
        return artifact_files(chip, self._compiler.model, data, *self._descriptions)

    def _networks(self) -> Iterator[bytes]:
        for data, description, report in self._compiler.compiled(self._parts):
            self._descriptions.append(description)
            self.reports.append(report)
            yield data
