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
    """The contents of a compiled file: the chip's bytes, the description of each network, and the chosen runtime
    version.
    """

    data: bytes
    descriptions: tuple[Description, ...]
    runtime_version: str | None = None

    @property
    def inputs(self) -> Described:
        """The preprocessing of the first network's inputs."""
        return self.descriptions[0].inputs if self.descriptions else {}


@dataclass(frozen=True, repr=False)
class CompiledNetwork:
    """Returned by `compile` and `load_compiled`; it can be pickled. `report` is None for a file that was read."""

    name: str
    report: CompileReport | None
    layers: tuple[LayerCommands, ...]
    _session: Session = field(compare=False)
    _chip: Chip = field(compare=False)
    _loaded: LoadedModel = field(compare=False)
    _artifact: Artifact = field(compare=False)

    @property
    def chip(self) -> str:
        """The name of its chip."""
        return self._chip.description.name

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs as stored."""
        return tuple(self._loaded.inputs)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs as stored."""
        return tuple(self._loaded.outputs)

    @property
    def memory(self) -> dict[str, int]:
        """Bytes by purpose: weights, activations, code, file."""
        return dict(self._loaded.memory)

    @in_sentences
    def run(self, inputs: Given) -> dict[str, Array]:
        """Run on the chip's simulator, bit for bit as the chip computes; returns the outputs by name.

        `inputs` is an array if there is one input, a mapping from names to arrays, a file of samples (npz, npy, image),
        or an iterable of samples. Several samples give results with a leading axis. Where integers are stored, integer
        arrays are taken unchanged and floats are quantized.
        """
        session = self._session
        specs = compiled_inputs(
            self._loaded, self._artifact.inputs, {}, session.remark, session.configuration.input_layout or ""
        )
        samples = samples_of(specs, inputs, session.registry)
        rows = [session.simulate(self._chip, self._loaded, as_stored(specs, sample)) for sample in samples]
        return stacked(rows)

    def profile(self, profile: str | None = None) -> Profile:
        """The latency by a timing profile of the chip, by default its first one."""
        return make_profile(self._session.registry, self.name, self._chip, self._loaded, profile, self.layers)

    def disassemble(self) -> str:
        """All commands as text."""
        return self._loaded.disassemble()

    @in_sentences
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the compiled file, or the source folder for a chip of functions; returns its path.

        Raises UsageError for a wrong suffix.
        """
        target = Path(path)
        if not names_folder(self._chip, target) or target.suffix in _other_suffixes(self._session, self._chip):
            check_suffix(target, self._chip.description.suffix, f"files for chip '{self.chip}'")
        self._write(target)
        return target

    def keep_report(self, path: Path) -> None:
        """Write the compilation report as JSON, if it was compiled here."""
        if self.report is not None:
            write_atomic(path, json.dumps(self.report.to_json(), indent=2, ensure_ascii=False) + "\n")

    def _write(self, target: Path) -> None:
        write_artifact(self._chip, target, self._artifact.data, *self._artifact.descriptions)
        self._session.registry.hooks.hook.artifact_written(path=target, kind="model")

    def __reduce__(self) -> tuple[Callable[..., CompiledNetwork], tuple[object, ...]]:
        """Pickle the bytes of the file, from which the simulator is recreated."""
        return _opened, (self.name, self.report, self.layers, self.chip, self._artifact)

    @in_sentences
    def bundle(self, folder: str | os.PathLike[str]) -> Path:
        """Write a deployment folder: the compiled file, its description as JSON, and the chip's programs.

        Returns its path; raises UsageError if the folder is not empty.
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
    """Load a compiled file into the simulator of its chip.

    `trust` allows C code written by another installation.
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
    """A compiled network from a pickle, whose code is trusted as pickles are."""
    session = make_session(chip=chip, runtime_version=artifact.runtime_version, trust=True)
    networks = session.chip.networks(artifact.data, name)
    file = CompiledFile(session.chip, Path(name), artifact.data, artifact.descriptions, networks, is_trusted=True)
    return CompiledNetwork(name, report, layers, session, session.chip, file.load(0), artifact)


def check_suffix(path: Path, suffix: str, what: str) -> None:
    """Raise UsageError for a file without the suffix of `what`."""
    if path.suffix.lower() != suffix:
        raise UsageError(f"{path}: {what} end in {suffix}; name it {path.with_suffix(suffix).name}.")


def _other_suffixes(session: Session, chip: Chip) -> set[str]:
    others = {one.description.suffix for _, one in session.registry.usable("tpuc.chips")}
    return others - {chip.description.suffix}


def stacked(rows: list[dict[str, Array]]) -> dict[str, Array]:
    """The results of a single sample unchanged, those of several with a leading axis."""
    return rows[0] if len(rows) == 1 else {name: np.stack([row[name] for row in rows]) for name in rows[0]}
