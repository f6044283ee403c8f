"""Collect the sources of a report: the compiled file, and the files kept by its compilation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpuc.api import Chip, CorruptFile, InvalidModel, LoadedModel, Module, Registry, UsageError, read_module
from tpuc_profile.making import make_report, profile_named
from tpuc_profile.report import Report

from tpuc_report.accuracy import Accuracy


@dataclass(frozen=True)
class Modules:
    """The float network, and the network that the file computes."""

    exact: Module
    lowered: Module


@dataclass(frozen=True)
class Origin:
    """Origin of a file. `report`: output of the compilation; `remarks`: those of its calibration table by subject;
    `plan`: its memory plan; all empty if nothing was kept.
    """

    report: Mapping[str, Any] = field(default_factory=dict[str, Any])
    remarks: tuple[tuple[str, str], ...] = ()
    found: Modules | None = None
    plan: Mapping[str, Any] = field(default_factory=lambda: {"pools": [], "buffers": []})

    def modules(self, wanted_for: Path) -> Modules:
        """Return the modules; raises UsageError if none were kept."""
        if self.found is None:
            raise UsageError(
                f"--dataset {wanted_for} needs the network that the file was compiled from; compile with --work-dir "
                "DIR and give that folder here."
            )
        return self.found


@dataclass(frozen=True)
class Subject:
    """Everything on the page. Without a timing model of the chip, nothing is `timed`."""

    name: str
    chip: Chip
    loaded: LoadedModel
    timed: Report | None
    origin: Origin
    accuracy: Accuracy | None


def timed(file: Path, chip: Chip, loaded: LoadedModel, profile: str | None) -> Report | None:
    """Return the profile of a file; raises UsageError for one that the chip does not have."""
    if not chip.profiles and profile is None:
        return None
    try:
        return make_report(file, chip, loaded, profile_named(chip, profile))
    except ValueError as error:
        raise CorruptFile(f"{file}: its metadata is damaged: {error}; compile the network again") from error


def read_origin(registry: Registry, file: Path, folder: Path | None, chip: str) -> Origin:
    """Read a folder of intermediate files; raises UsageError if it belongs to another compiled file."""
    if folder is None:
        return Origin()
    path = folder / f"{file.name}.json"
    if not path.is_file():
        raise UsageError(
            f"{folder} has no {path.name}: the folder belongs to another file than {file}; give the folder of this "
            "file."
        )
    try:
        report: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        name, mode = str(report["network"]), str(report["mode"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidModel(
            f"{path} is not a compilation report ({type(error).__name__}: {error}); compile with --work-dir again"
        ) from error
    paths = [folder / f"{name}.mlir", folder / f"{name}_{chip}_{_tag(mode)}_tpu.mlir"]
    modules = None
    if all(one.is_file() for one in paths):
        modules = Modules(*(read_module(one, registry.resolve_op) for one in paths))
    return Origin(report, _remarks(folder / f"{name}_cali_table"), modules, _plan(folder / f"{file.name}.plan.json"))


def _plan(path: Path) -> Mapping[str, Any]:
    """Read the memory plan; raises InvalidModel for a damaged one."""
    if not path.is_file():
        return {"pools": [], "buffers": []}
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
        names = {"name", "pool", "offset", "size_bytes", "first", "last", "reason"}
        if any(not names <= set(one) for one in plan["buffers"]) or any(
            "peak_bytes" not in one for one in plan["pools"]
        ):
            raise KeyError("an entry of a buffer or pool is missing")
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidModel(f"{path} is not a memory plan ({error}); compile with --work-dir again") from error
    return plan


def _tag(mode: str) -> str:
    """Return a mode as spelled in file names."""
    is_symmetric = mode.startswith("int") and not mode.endswith("-asym")
    return f"{mode}_sym" if is_symmetric else mode.replace("-", "_")


def _remarks(table: Path) -> tuple[tuple[str, str], ...]:
    """Return the header lines of a calibration table by their subject, the part before the colon."""
    if not table.is_file():
        return ()
    lines = [line[2:] for line in table.read_text(encoding="utf-8").splitlines() if line.startswith("# ")]
    pairs = (line.partition(": ") for line in lines)
    return tuple((subject, text) for subject, colon, text in pairs if colon)
