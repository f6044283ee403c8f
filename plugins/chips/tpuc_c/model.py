"""Run a compiled network on this machine, by building the generated C with the local compiler.

Code runs only if this user's installation generated it or the user trusts it, and always in confinement.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api import (
    LoadedModel,
    ScalarType,
    StoredInput,
    TensorInfo,
    TensorType,
    Timeline,
    TpucError,
    Unsupported,
    UsageError,
    numpy_dtype,
    stored_inputs,
    visible,
)
from tpuc.api.boundary import State, first_value
from tpuc_driver.api.host import is_written_here

from tpuc_c.confinement import COMPILERS, Limits, compiler, confined
from tpuc_c.description import Described, read_description
from tpuc_c.storage import unpacked

Array: TypeAlias = npt.NDArray[Any]
FLAGS = ("-std=c99", "-O2", "-ftree-vectorize", "-DTPUC_PORTABLE", "-Wall", "-Wextra", "-Werror", "-pedantic")
"""Portable loops give the same bits as optimized ones, and compile in a quarter of the time with a third of the
memory.
"""
MEGABYTE = 1 << 20
OWN = Limits(0, 24 * 3600, 1 << 40)
"""Limits for code that this installation generated."""
FOREIGN_BYTES = 900 * MEGABYTE
"""Memory limit for foreign code."""
COMPILER_BASE, COMPILER_PER_BYTE = 128 * MEGABYTE, 48
"""Memory limit of the compiler: gcc 12 takes 60 MB plus at most 44 bytes per byte of source."""
FOREIGN_SECONDS = 60


@dataclass
class CompiledProgram(LoadedModel):
    """The files of a compiled network; the first run builds them."""

    files: Mapping[str, bytes]
    description: Described
    source: str
    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]
    size_bytes: int
    is_own: bool
    states: Sequence[State] = ()

    def __post_init__(self) -> None:
        self.reset()

    @staticmethod
    def of(data: bytes, source: str) -> CompiledProgram:
        """Create from an archive; raises CorruptFile."""
        files = unpacked(data, source)
        found = read_description(files, source)
        kept = {name for state in found.states for name in (state.input, state.output)}
        inputs, outputs = ([one for one in infos if one.name not in kept] for infos in (found.inputs, found.outputs))
        return CompiledProgram(files, found, source, inputs, outputs, len(data), is_written_here(data), found.states)

    def reset(self) -> None:
        """See LoadedModel."""
        infos = {info.name: info for info in self.description.inputs}
        kept = [infos[state.input] for state in self.states]
        firsts = {info.name: first_value(TensorType(info.shape, info.element)) for info in kept}
        self._held = {info.name: np.full(info.shape, firsts[info.name], numpy_dtype(_storage(info))) for info in kept}

    def run(self, inputs: Mapping[str, Array], check: bool = True) -> dict[str, Array]:
        """See LoadedModel; raises UsageError for foreign code, Unsupported where there is no C compiler."""
        self._check_trust()
        wanted = [_stored(info) for info in self.inputs]
        arrays = {**stored_inputs(inputs, wanted, self.source), **self._held}
        parts = [arrays[one.name].tobytes() for one in self.description.inputs]
        outputs = self.description.outputs
        kinds = [(info, numpy_dtype(_storage(info)), int(np.prod(info.shape))) for info in outputs]
        expected = sum(dtype.itemsize * size for _, dtype, size in kinds)
        program, limits = self._program, self._limits(expected)
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as taken:
            given.write(b"".join(parts))
            given.seek(0)
            ended = confined([str(program)], program.parent, limits, streams=(given, taken, DEVNULL))
            taken.seek(0)
            data = taken.read(expected + 1)
        if ended.code or len(data) != expected:
            why = ended.why if ended.code else f"it returned {len(data)} bytes instead of {expected}"
            raise TpucError(f"{self.source}: the compiled network failed: {why}; compile it again")
        results: dict[str, Array] = {}
        at = 0
        for info, dtype, size in kinds:
            results[info.name] = np.frombuffer(data, dtype, size, at).reshape(info.shape).copy()
            at += results[info.name].nbytes
        self._held = {state.input: results.pop(state.output) for state in self.states}
        return results

    def _check_trust(self) -> None:
        if not (self.is_own or self.is_trusted):
            raise UsageError(
                f"{self.source}: this file comes from another installation, and running it executes its C code on this "
                "machine; add --trust if you trust its origin."
            )

    def _limits(self, output_bytes: int) -> Limits:
        """Limits of one run."""
        if self.is_own:
            return OWN
        given = sum(numpy_dtype(_storage(info)).itemsize * int(np.prod(info.shape)) for info in self.description.inputs)
        stated = self.description.workspace_bytes + self.description.parameter_bytes + given + output_bytes
        memory = 64 * MEGABYTE + 2 * stated + self.size_bytes
        if memory > FOREIGN_BYTES:
            raise TpucError(
                f"{self.source}: running it takes {memory >> 20} MB, but foreign code may use {FOREIGN_BYTES >> 20}; "
                "compile the network here"
            )
        return Limits(memory, FOREIGN_SECONDS, output_bytes)

    @functools.cached_property
    def _program(self) -> Path:
        """The example program, built in a temporary folder that is removed with this object."""
        found = compiler()
        if found is None:
            raise Unsupported(
                f"{self.source}: running it needs a C compiler ({', '.join(COMPILERS)}); install one, or compile with "
                "--work-dir and run the _final.mlir"
            )
        limits = OWN
        if not self.is_own:
            memory, seconds = COMPILER_BASE + COMPILER_PER_BYTE * self.size_bytes, self.size_bytes // MEGABYTE * 4
            limits = Limits(memory, FOREIGN_SECONDS + seconds, 64 * MEGABYTE + 4 * self.size_bytes)
        folder = Path(tempfile.mkdtemp(prefix="tpuc-c-")).resolve()
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        built = self.description.program_files
        for name, content in self.files.items():
            inside = name.removeprefix(self.description.folder)
            if "/" not in inside or name in built:  # files in other folders belong to other builds
                (folder / Path(name).name).write_bytes(content)
        names = [f"./{Path(name).name}" for name in built]
        command = [found, *FLAGS, "-o", "./network", *names, "-lm"]
        path = os.pathsep.join((str(Path(found).parent), os.defpath))
        with (folder / "messages").open("w+b") as messages:
            environment = {"PATH": path, "TMPDIR": str(folder)}
            streams = (DEVNULL, messages, messages)
            ended = confined(command, folder, limits, writes=True, forks=True, environment=environment, streams=streams)
            messages.seek(0)
            said = messages.read(1000).decode("utf-8", "replace").strip().splitlines()
        if ended.code:
            raise TpucError(
                f"{self.source}: the C compiler rejects it: {visible(said[0])[:300] if said else ended.why}; compile "
                "the network again"
            )
        return folder / "network"

    def read(self, address: int, shape: tuple[int, ...], storage: ScalarType) -> Array:
        """See LoadedModel."""
        raise Unsupported("values inside a network in C cannot be read; make them outputs with --output-names")

    def timeline(self, profile: str) -> Timeline:
        """See LoadedModel."""
        raise Unsupported("networks in C have no timing model; measure the program on its target")

    def disassemble(self) -> str:
        """The operators as generated C source."""
        where = f"{self.description.folder}{self.description.identifier}_operators.c"
        return self.files[where].decode("utf-8", "replace")

    @property
    def memory(self) -> Mapping[str, int]:
        """See LoadedModel."""
        return {
            "weights": self.description.parameter_bytes,
            "activations": self.description.workspace_bytes,
            "file": self.size_bytes,
        }


def _stored(info: TensorInfo) -> StoredInput:
    dtype = numpy_dtype(_storage(info))
    return StoredInput(info.name, info.shape, dtype, dtype.name)


def _storage(info: TensorInfo) -> ScalarType:
    return TensorType(info.shape, info.element).storage
