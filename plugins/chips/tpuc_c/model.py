"""A compiled network run on this machine: the C that was written, through the C compiler that is here."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api import LoadedModel, ScalarType, TensorInfo, TensorType, Timeline, TpucError, Unsupported, numpy_dtype

from tpuc_c.project import sources
from tpuc_c.storage import read_description, tensor_from_json, unpacked

Array: TypeAlias = npt.NDArray[Any]
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c99", "-O2", "-ftree-vectorize", "-Wall", "-Wextra", "-Werror", "-pedantic")


@functools.cache
def compiler() -> str | None:
    """The C compiler of this machine, None where there is none."""
    return next((found for name in COMPILERS if (found := shutil.which(name)) is not None), None)


@dataclass
class CompiledProgram(LoadedModel):
    """The files of a compiled network; they are built when it is run for the first time."""

    files: Mapping[str, bytes]
    description: Mapping[str, Any]
    source: str
    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]
    size_bytes: int

    @staticmethod
    def of(data: bytes, source: str) -> CompiledProgram:
        """Of an archive; raises CorruptFile."""
        files = unpacked(data, source)
        description = read_description(files, source)
        inputs, outputs = (
            tuple(tensor_from_json(one, source) for one in description.get(kind, ())) for kind in ("inputs", "outputs")
        )
        return CompiledProgram(files, description, source, inputs, outputs, len(data))

    def run(self, inputs: Mapping[str, Array], check: bool = True) -> dict[str, Array]:
        """See LoadedModel; raises Unsupported where there is no C compiler."""
        parts = [self._stored(info, inputs[info.name]) for info in self.inputs]
        done = subprocess.run([self._program], input=b"".join(parts), capture_output=True, check=False)
        if done.returncode:
            raise TpucError(f"{self.source}: the compiled network ended with {done.returncode}; tell its authors")
        results: dict[str, Array] = {}
        at = 0
        for info in self.outputs:
            dtype = numpy_dtype(_storage(info))
            part = np.frombuffer(done.stdout, dtype, int(np.prod(info.shape)), at)
            results[info.name] = part.reshape(info.shape).copy()
            at += part.nbytes
        return results

    @staticmethod
    def _stored(info: TensorInfo, array: Array) -> bytes:
        return np.ascontiguousarray(array, numpy_dtype(_storage(info))).tobytes()

    @functools.cached_property
    def _program(self) -> Path:
        """The program of the example, built in a folder that goes with this object."""
        found = compiler()
        if found is None:
            raise Unsupported(
                f"{self.source}: needs a C compiler ({', '.join(COMPILERS)}) to be run; install one, or compile with "
                "--work-dir and run the _final.mlir"
            )
        folder = Path(tempfile.mkdtemp(prefix="tpuc-c-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        names = (*sources(str(self.description["identifier"])), "main.c")
        command = [found, *FLAGS, "-o", "network", *names, "-lm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            first = done.stderr.strip().splitlines()[0] if done.stderr.strip() else "no message"
            raise TpucError(f"{self.source}: the C compiler refuses it: {first}; tell its authors")
        return folder / "network"

    def read(self, address: int, shape: tuple[int, ...], storage: ScalarType) -> Array:
        """See LoadedModel."""
        raise Unsupported("values inside a network in C cannot be read; make them outputs with --output-names")

    def timeline(self, profile: str) -> Timeline:
        """See LoadedModel."""
        raise Unsupported("networks in C have no timing model; measure the program where it runs")

    def disassemble(self) -> str:
        """The operators as they stand in the source."""
        return self.files[f"{self.description['identifier']}_operators.c"].decode("utf-8")

    @property
    def memory(self) -> Mapping[str, int]:
        """See LoadedModel."""
        return {
            "weights": int(self.description["parameter_bytes"]),
            "activations": int(self.description["workspace_bytes"]),
            "file": self.size_bytes,
        }


def _storage(info: TensorInfo) -> ScalarType:
    return TensorType(info.shape, info.element).storage
