"""A compiled network: run it on the chip's simulator, time it, save it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tpuc.api.chip import Chip, LoadedModel, TensorInfo
from tpuc.api.planning import LayerCommands
from tpuc.errors import UsageError, visible_lines

from tpuc_driver.facade.arrays import Array, Given, samples_of
from tpuc_driver.facade.profile import Profile, make_profile
from tpuc_driver.facade.remarks import make_session
from tpuc_driver.facade.shown import Section, html_of
from tpuc_driver.session import CompileReport, Session
from tpuc_driver.session.artifacts import Described, read_artifact, write_artifact
from tpuc_driver.session.bundle import check_bundle, write_bundle
from tpuc_driver.session.reports import shown_tensor
from tpuc_driver.session.running import as_stored, compiled_inputs


@dataclass(frozen=True, repr=False)
class CompiledNetwork:
    """What `compile` and `load_compiled` give. `report` is None for a file that was read."""

    name: str
    report: CompileReport | None
    layers: tuple[LayerCommands, ...]
    _session: Session = field(compare=False)
    _chip: Chip = field(compare=False)
    _loaded: LoadedModel = field(compare=False)
    _described: Described = field(compare=False)
    _write: Callable[[Path], None] = field(compare=False)

    @property
    def chip(self) -> str:
        """The name of the chip that it is for."""
        return self._chip.description.name

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """As they are stored."""
        return tuple(self._loaded.inputs)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """As they are stored."""
        return tuple(self._loaded.outputs)

    @property
    def memory(self) -> dict[str, int]:
        """Bytes by purpose: weights, activations, code, file."""
        return dict(self._loaded.memory)

    def run(self, inputs: Given) -> dict[str, Array]:
        """The outputs by name, as the chip computes them, bit for bit.

        `inputs` is an array where there is one input, a mapping from names to arrays, or a file of samples (npz, npy,
        image). Several samples behind a leading axis give results with that axis. Where integers are stored, integers
        are taken as they are and floats are quantised.
        """
        session = self._session
        specs = compiled_inputs(
            self._loaded, self._described, {}, session.remark, session.configuration.input_layout or ""
        )
        samples = samples_of(specs, inputs, session.registry)
        rows = [session.simulate(self._chip, self._loaded, as_stored(specs, sample)) for sample in samples]
        return stacked(rows)

    def profile(self, profile: str | None = None) -> Profile:
        """How long it takes by a timing profile of the chip, its first one if none is named."""
        return make_profile(self.name, self._chip, self._loaded, profile, self.layers)

    def disassemble(self) -> str:
        """Every command as text."""
        return self._loaded.disassemble()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the compiled file, or the folder of source for a chip of functions; returns its path."""
        target = Path(path)
        self._write(target)
        return target

    def bundle(self, folder: str | os.PathLike[str]) -> Path:
        """Write a folder to deploy: the compiled file, its description as JSON, the programs that the chip brings.

        Returns its path; raises UsageError where there is something in it already.
        """
        target = Path(folder)
        check_bundle(target)
        with TemporaryDirectory() as place:
            file = Path(place) / f"{Path(self.name).stem}{self._chip.description.suffix}"
            self._write(file)
            write_bundle(self._session.opened(file), target)
        return target

    def __repr__(self) -> str:
        lines = (
            f"CompiledNetwork '{self.name}' for {self.chip}",
            *(f"input {shown_tensor(info)}" for info in self.inputs),
            *(f"output {shown_tensor(info)}" for info in self.outputs),
            "memory: " + ", ".join(f"{name} {size:,} B" for name, size in self.memory.items()),
        )
        return visible_lines(lines) if self.report is None else self.report.text()

    def _repr_html_(self) -> str:
        tensors = [("input", info) for info in self.inputs] + [("output", info) for info in self.outputs]
        rows = [(kind, shown_tensor(info)) for kind, info in tensors]
        memory = [(name, f"{size:,} B") for name, size in self.memory.items()]
        body = html_of(f"{self.name} for {self.chip}", [Section("Border", (), rows), Section("Memory", (), memory)])
        return body + (self.profile().to_html() if self._chip.profiles else "")


def load_compiled(path: str | os.PathLike[str], *, trust: bool = False) -> CompiledNetwork:
    """A compiled file on the simulator of the chip that it says it is for.

    `trust` lets C code run that another installation wrote.
    """
    source, session = Path(path), make_session(trust=trust)
    if not source.exists():
        raise UsageError(f"{source}: no such file or folder.")
    chip, loaded, described = session.open_described(source)

    def copy(target: Path) -> None:
        data, descriptions = read_artifact(chip, source)
        write_artifact(chip, target, data, *descriptions)

    return CompiledNetwork(source.name, None, tuple(loaded.layers), session, chip, loaded, described, copy)


def stacked(rows: list[dict[str, Array]]) -> dict[str, Array]:
    """The results of one sample as they are, of several with one more leading axis."""
    return rows[0] if len(rows) == 1 else {name: np.stack([row[name] for row in rows]) for name in rows[0]}
