"""The programs of a deployment folder, built for this machine and run on the vendor's runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.testing import assert_allclose
from numpy.typing import NDArray

SHOWN = 5
ROW = 7


def vendor_library() -> Path:
    """The folder of the vendor's libraries; ask for `oracle_dir` first, which says that they are there."""
    environment = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer")
    (found,) = environment.glob("lib/python3.*/site-packages/tpu_mlir/lib")
    return found


@dataclass(frozen=True)
class Runtime:
    """How to build and run the programs of one chip: `libraries` to link, of the headers in `headers`, found in
    `search` before the vendor's folder; with `environment`.
    """

    libraries: Sequence[str]
    headers: Path
    search: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    def build(self, folder: Path) -> Path:
        """The program in C++."""
        libraries = vendor_library()
        link = ["-L", str(libraries), *self.libraries, f"-Wl,-rpath,{libraries}", "-Wl,--allow-shlib-undefined"]
        flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", str(self.headers)]
        subprocess.run(["g++", *flags, "run.cpp", *link, "-o", "run"], cwd=folder, check=True)
        return folder / "run"

    def build_by_cmake(self, folder: Path) -> Path:
        """The same by CMakeLists.txt."""
        libraries = vendor_library()
        sdk = ["-DRUNTIME_HEADERS=" + str(self.headers), f"-DTPU_SDK={libraries.parent}"]
        linking = f"-DCMAKE_EXE_LINKER_FLAGS=-Wl,-rpath,{libraries} -Wl,--allow-shlib-undefined"
        subprocess.run(
            ["cmake", "-B", "build", *sdk, linking],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        subprocess.run(["cmake", "--build", "build"], cwd=folder, check=True, capture_output=True)
        return folder / "build" / "run"

    def build_by_make(self, folder: Path) -> Path:
        """The same by Makefile."""
        libraries = vendor_library()
        linking = f"LDFLAGS=-Wl,-rpath,{libraries} -Wl,--allow-shlib-undefined"
        flags = f"CXXFLAGS=-O0 -I {self.headers}"
        command = ["make", f"TPU_SDK={libraries.parent}", flags, linking]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return folder / "run"

    def run(self, command: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
        """A program in the folder, where it finds the runtime."""
        paths = os.pathsep.join(map(str, (*self.search, vendor_library())))
        environment = os.environ | {"LD_LIBRARY_PATH": paths} | dict(self.environment)
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    def check_both(self, folder: Path, wanted_file: Path) -> None:
        """Compare what the programs print of `input.bin` with the stored output of the simulator."""
        (stored,) = dict(np.load(wanted_file)).values()
        said = json.loads((folder / "network.json").read_text("utf-8"))
        (output,), labels = said["outputs"], said["labels"]
        name = output["name"]  # the container's, which the runtime shows
        if stored.shape[-1] == ROW:
            self.check_rows(folder, name, stored.reshape(-1, ROW), labels)
            return
        values = stored.reshape(-1).astype(np.float32) * np.float32(output["scale"])
        order = np.argsort(-values, kind="stable")[:SHOWN]
        for command in ([self.build(folder)], [sys.executable, "run.py"]):
            ran = self.run([*command, "input.bin"], folder)
            assert ran.returncode == 0, ran.stderr
            rows = printed(ran.stdout, name, 2)
            places, found = [int(row[0]) for row in rows], [float(row[1]) for row in rows]
            assert places == order.tolist()
            assert [row[2:] for row in rows] == [labels[place : place + 1] for place in places]
            # A softmax in floats may be the runtime's, on the processor: it adds in another order.
            assert_allclose(found, values[order], rtol=1e-6)

    def check_rows(self, folder: Path, name: str, rows: NDArray[np.float32], labels: Sequence[str]) -> None:
        """The same of rows of objects or classes."""
        used = rows[(rows[:, 2] != 0) & (rows[:, 1] >= 0)]
        best = used[np.argsort(-used[:, 2], kind="stable")][:SHOWN, 1:]
        assert len(best) == SHOWN
        for command in ([self.build(folder)], [sys.executable, "run.py"]):
            ran = self.run([*command, "input.bin"], folder)
            assert ran.returncode == 0, ran.stderr
            found = printed(ran.stdout, name, ROW - 1)
            # Boxes and the softmax are computed in float32, in another order.
            assert_allclose([[float(value) for value in row[: ROW - 1]] for row in found], best, rtol=1e-5, atol=1e-6)
            places = best[:, 0].astype(int).tolist()
            assert [row[ROW - 1 :] for row in found] == [list(labels[place : place + 1]) for place in places]


def printed(text: str, output: str, numbers: int) -> list[list[str]]:
    """The rows that follow the name of an output: so many numbers, and the name of the class if there is one."""
    lines = text.splitlines()
    start = lines.index(output) + 1
    return [line.split(" ", numbers) for line in lines[start : start + SHOWN]]
