"""Compiled files on the vendor's runtime: one process of each kind for all tests, which forks a child for each run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.chips.oracles import load_oracle

SERVER = Path(__file__).with_name("vendor_server.py")


class VendorRunError(RuntimeError):
    """The vendor's runtime gave no result."""


class VendorRuns:
    """Runs files by the tools in a folder. Nothing starts before the first file of its kind comes."""

    def __init__(self, tools: Path) -> None:
        self.tools = tools.resolve()
        self._folder = tempfile.TemporaryDirectory(prefix="tpuc-vendor-")
        self._servers: dict[str, subprocess.Popen[str]] = {}

    def close(self) -> None:
        """End all processes."""
        for server in self._servers.values():
            server.communicate()  # the end of its input ends it
        self._servers.clear()
        self._folder.cleanup()

    def run(
        self,
        path: Path,
        inputs: Mapping[str, NDArray[Any]],
        *,
        all_tensors: bool = False,
        timeout: float = 300.0,
    ) -> dict[str, NDArray[Any]]:
        """Raw arrays in, raw arrays out, both by tensor name; `VendorRunError` when the runtime refuses or dies."""
        folder = Path(self._folder.name)
        source, target, log = folder / "in.npz", folder / "out.npz", folder / "log"
        target.unlink(missing_ok=True)
        log.write_bytes(b"")
        np.savez(source, **inputs)  # type: ignore[arg-type]
        arguments = [str(path.resolve()), str(source), str(target), *(["--all"] if all_tensors else [])]
        status = self._ask(path.suffix, [timeout, str(log), *arguments])
        if not target.exists():  # a runtime that dies after it has written a result has given one
            words = log.read_text("utf-8", "replace").strip()[-2000:]
            raise VendorRunError(words or (f"not done within {timeout:g} s" if status == "timeout" else status))
        with np.load(target) as arrays:
            return dict(arrays)

    def _ask(self, kind: str, request: list[Any]) -> str:
        if kind not in self._servers:
            self._servers[kind] = self._start(kind)
        server = self._servers[kind]
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
        except BrokenPipeError:
            pass
        reply = server.stdout.readline().strip()
        if not reply:
            del self._servers[kind]
            raise VendorRunError(f"the process that runs {kind} files ended with status {server.wait()}")
        return f"exit status {reply}" if reply.lstrip("-").isdigit() else reply

    def _start(self, kind: str) -> subprocess.Popen[str]:
        places = load_oracle(self.tools, "oracle_child")
        # The runtime opens the functional model under a fixed name; a link in a folder of our own leads it there.
        model = Path(self._folder.name) / "libcmodel.so"
        if not model.is_symlink():
            model.symlink_to(places.peer_package() / "lib" / "libcmodel_bm1684x.so")
        search = os.pathsep.join(filter(None, (self._folder.name, os.environ.get("LD_LIBRARY_PATH"))))
        python = str(places.peer_root() / "bin" / "python") if kind == ".bmodel" else sys.executable
        return subprocess.Popen(
            [python, str(SERVER), str(self.tools), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self._folder.name,
            env={**os.environ, "LD_LIBRARY_PATH": search},
        )
