"""Models that consist of several networks, such as language models: compiled one after another into one file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from tpuc.api.chip import FLOAT_MODES, Chip
from tpuc.api.frontend import NetworkPart
from tpuc.errors import Unsupported, UsageError, visible_lines
from tpuc.files import write_all
from tpuc.ir import Module

from tpuc_driver.session.artifacts import Description, artifact_files
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
        finished: list[Finished] = []
        plans: dict[Hashable, Any] = {}
        for _, group in groupby(parts, lambda part: part.group):
            finished += self._group(list(group), SharedConstants(plans=plans))
        chip = self.configuration.chip
        data = chip.combine([one.built.data for one in finished])
        described = {one.built.module.name: one.description for one in finished}
        entries = chip.networks(data)
        files = artifact_files(chip, self.model, data, *(described.get(one.name, Description()) for one in entries))
        write_all({**files, **beside})
        self.configuration.registry.hooks.hook.artifact_written(path=self.model, kind="model")
        reports = tuple(one.report for one in finished)
        return self._report(reports, len(data))

    def _check_chip(self) -> None:
        """Raise Unsupported for a chip whose files hold one network."""
        chip = self.configuration.chip
        if type(chip).combine is Chip.combine:
            raise Unsupported(
                f"{self.model}: the model compiles to several networks, and files for chip '{chip.description.name}' "
                "hold one; choose another chip."
            )

    def _group(self, parts: Sequence[NetworkPart], shared: SharedConstants) -> list[Finished]:
        steps: list[tuple[Module, DeploySettings]] = []
        for part in parts:
            self.optimize(part.module)
            steps.append((part.module, DeploySettings(boundary=self._boundary(part), constants=shared)))
        for module, step in steps[:-1]:  # the last one knows the constants of all others
            self.build(module, step)
        done = [self.finish(module, step) for module, step in reversed(steps)]
        return done[::-1]

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
