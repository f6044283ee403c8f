"""A compiled network: run it on the chip's simulator, time it, save it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tpuc.api.chip import Chip, LoadedModel, TensorInfo
from tpuc.api.planning import LayerCommands
from tpuc.errors import UsageError, visible_lines
from tpuc.files import write_atomic

from tpuc_driver.facade.arrays import Array, Given, samples_of
from tpuc_driver.facade.profile import Profile, make_profile
from tpuc_driver.facade.remarks import make_session
from tpuc_driver.facade.sentences import in_sentences
from tpuc_driver.facade.shown import Section, html_of
from tpuc_driver.session import CompileReport, Session
from tpuc_driver.session.artifacts import Described, Description, names_folder, read_artifact, write_artifact
from tpuc_driver.session.bundle import check_bundle, write_bundle
from tpuc_driver.session.combining import CompiledFile
from tpuc_driver.session.reports import shown_tensor
from tpuc_driver.session.running import as_stored, compiled_inputs


@dataclass(frozen=True)
class Artifact:
    """What a compiled file holds: the chip's bytes, what is known of each network in them, and the runtime that was
    chosen for it.
    """

    data: bytes
    descriptions: tuple[Description, ...]
    runtime_version: str | None = None

    @property
    def inputs(self) -> Described:
        """How pictures become the inputs of the first network."""
        return self.descriptions[0].inputs if self.descriptions else {}


@dataclass(frozen=True, repr=False)
class CompiledNetwork:
    """What `compile` and `load_compiled` give; it can be pickled. `report` is None for a file that was read."""

    name: str
    report: CompileReport | None
    layers: tuple[LayerCommands, ...]
    _session: Session = field(compare=False)
    _chip: Chip = field(compare=False)
    _loaded: LoadedModel = field(compare=False)
    _artifact: Artifact = field(compare=False)

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

    @in_sentences
    def run(self, inputs: Given) -> dict[str, Array]:
        """The outputs by name, as the chip computes them, bit for bit.

        `inputs` is an array where there is one input, a mapping from names to arrays, or a file of samples (npz, npy,
        image), or an iterable of samples. Several samples give results with a leading axis. Where integers are stored,
        integers are taken as they are and floats are quantized.
        """
        session = self._session
        specs = compiled_inputs(
            self._loaded, self._artifact.inputs, {}, session.remark, session.configuration.input_layout or ""
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

    @in_sentences
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the compiled file, or the folder of source for a chip of functions; returns its path.

        Raises UsageError for a name that does not end as files for the chip do.
        """
        target = Path(path)
        if not names_folder(self._chip, target) or target.suffix in _other_suffixes(self._session, self._chip):
            check_suffix(target, self._chip.description.suffix, f"files for chip '{self.chip}'")
        self._write(target)
        return target

    def keep_report(self, path: Path) -> None:
        """Write what the compilation told as JSON, where it was made here."""
        if self.report is not None:
            write_atomic(path, json.dumps(self.report.to_json(), indent=2, ensure_ascii=False) + "\n")

    def _write(self, target: Path) -> None:
        write_artifact(self._chip, target, self._artifact.data, *self._artifact.descriptions)
        self._session.registry.hooks.hook.artifact_written(path=target, kind="model")

    def __reduce__(self) -> tuple[Callable[..., CompiledNetwork], tuple[object, ...]]:
        """The bytes of the file, from which the simulator is made again."""
        return _opened, (self.name, self.report, self.layers, self.chip, self._artifact)

    @in_sentences
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


@in_sentences
def load_compiled(path: str | os.PathLike[str], *, trust: bool = False) -> CompiledNetwork:
    """A compiled file on the simulator of the chip that it says it is for.

    `trust` lets C code run that another installation wrote.
    """
    source, session = Path(path), make_session(trust=trust)
    if not source.exists():
        raise UsageError(f"{source}: no such file or folder.")
    chip, loaded, _ = session.open_described(source)
    artifact = Artifact(*_read(chip, source))
    return CompiledNetwork(source.name, None, tuple(loaded.layers), session, chip, loaded, artifact)


def _read(chip: Chip, source: Path) -> tuple[bytes, tuple[Description, ...]]:
    data, descriptions = read_artifact(chip, source)
    return data, tuple(descriptions)


def _opened(
    name: str, report: CompileReport | None, layers: tuple[LayerCommands, ...], chip: str, artifact: Artifact
) -> CompiledNetwork:
    """A compiled network that was pickled. Who unpickles trusts its code."""
    session = make_session(chip=chip, runtime_version=artifact.runtime_version, trust=True)
    networks = session.chip.networks(artifact.data, name)
    file = CompiledFile(session.chip, Path(name), artifact.data, artifact.descriptions, networks, is_trusted=True)
    return CompiledNetwork(name, report, layers, session, session.chip, file.load(0), artifact)


def check_suffix(path: Path, suffix: str, what: str) -> None:
    """Raise UsageError for a file that is not named as `what` are."""
    if path.suffix.lower() != suffix:
        raise UsageError(f"{path}: {what} end in {suffix}; name it {path.with_suffix(suffix).name}.")


def _other_suffixes(session: Session, chip: Chip) -> set[str]:
    others = {one.description.suffix for _, one in session.registry.usable("tpuc.chips")}
    return others - {chip.description.suffix}


def stacked(rows: list[dict[str, Array]]) -> dict[str, Array]:
    """The results of one sample as they are, of several with one more leading axis."""
    return rows[0] if len(rows) == 1 else {name: np.stack([row[name] for row in rows]) for name in rows[0]}
