"""Write a deployment folder: the compiled file, its description as JSON, and programs for the chip."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tpuc.api.chip import TensorInfo
from tpuc.errors import UsageError
from tpuc.files import CannotWrite, check_writable, reason, way_out, write_atomic
from tpuc.registry import Registry

from tpuc_driver.session.artifacts import Described, write_artifact
from tpuc_driver.session.combining import CompiledFile
from tpuc_driver.session.reports import tensor_values

DESCRIPTION = "network.json"
VERSION = 1


def check_bundle(folder: Path) -> None:
    """Check that the folder can be written; raises UsageError if it is a file or not empty."""
    if not folder.exists():
        check_writable(folder)
    elif not folder.is_dir():
        raise UsageError(f"{folder} is a file, but --bundle writes a folder; choose another name.")
    elif any(folder.iterdir()):
        raise UsageError(f"{folder}: the folder is not empty; choose a new one for the bundle.")


def write_bundle(file: CompiledFile, folder: Path) -> list[str]:
    """Write the folder for a compiled file with one network, atomically; returns the names of the chip's programs."""
    check_bundle(folder)
    model, described, loaded = file.path.name, file.described(0), file.container(0)
    own = file.description(0)
    description = {
        "version": VERSION,
        "chip": file.chip.description.name,
        "model": model,
        "inputs": [_input(info, described) for info in loaded.inputs],
        "reset_input": None if loaded.reset_input is None else _tensor(loaded.reset_input),
        "outputs": [_tensor(info) for info in loaded.outputs],
        "postprocess": None if own.postprocess is None else asdict(own.postprocess),
        "labels": list(own.labels),
        "host_functions": [call.function for call in loaded.host_calls],
    }
    programs = dict(file.chip.programs(model, loaded, described, own.labels))
    if programs and own.postprocess is not None:
        registry = Registry()
        for _, answer in registry.usable("tpuc.answers"):
            programs |= answer().programs(loaded, own.postprocess, registry)
    with _whole(folder) as target:
        write_artifact(file.chip, target / model, file.data, own)
        write_atomic(target / DESCRIPTION, json.dumps(description, indent=2, ensure_ascii=False) + "\n")
        for name, text in programs.items():
            write_atomic(target / name, text)
    return sorted(programs)


def _tensor(info: TensorInfo) -> dict[str, Any]:
    """Describe a tensor; unsigned bytes are `u8` whether or not they have a scale."""
    values = tensor_values(info)
    return {**values, "type": values["type"].replace("ui", "u")}


def _input(info: TensorInfo, described: Described) -> dict[str, Any]:
    preprocess = described.get(info.name)
    return {
        **_tensor(info),
        "rounds_evenly": info.rounds_evenly,
        "frame": None if info.frame is None else asdict(info.frame),
        "preprocess": None if preprocess is None else asdict(preprocess),
    }


@contextmanager
def _whole(folder: Path) -> Generator[Path]:
    """Yield a temporary folder that replaces `folder` if the block succeeds, and is removed otherwise."""
    target = folder.resolve()
    parts = Path(mkdtemp(prefix=".tpuc-", dir=target.parent))
    try:
        inside = parts / target.name
        inside.mkdir()
        yield inside
        if target.exists():
            target.rmdir()
        inside.rename(target)
    except CannotWrite as error:  # its path is in the temporary folder
        if isinstance(cause := error.__cause__, OSError):
            raise CannotWrite(f"{folder}: cannot be written: {reason(cause)}. {way_out(cause)}") from error
        raise
    finally:
        shutil.rmtree(parts)
