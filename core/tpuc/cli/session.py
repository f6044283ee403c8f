"""What the commands use of `tpuc.session`, imported when a command runs."""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from tpuc.cli.app import App
from tpuc.errors import UsageError

if TYPE_CHECKING:
    from tpuc.api.chip import Chip
    from tpuc.cli.values import Shapes
    from tpuc.ir import Module

T = TypeVar("T")


class Progress(Protocol):
    """Shows how far a loop is."""

    def __call__(self, items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
        """The same items."""
        ...


class Report(Protocol):
    """A result for people (`text`) and for programs (`to_json`)."""

    def text(self) -> str:
        """A few lines."""
        ...

    def to_json(self) -> Mapping[str, Any]:
        """Plain values."""
        ...


class CalibrationTable(Protocol):
    """Thresholds and ranges by value name."""

    def write(self, path: Path) -> None:
        """Write the table file."""
        ...


class Session(Protocol):
    """The pipeline as an object. Paths in, modules and reports out; files are written whole or not at all."""

    def load(self, path: Path) -> Module:
        """Read a `.mlir` file with its weights."""
        ...

    def save(self, module: Module, path: Path) -> None:
        """Write a `.mlir` file and its weights beside it."""
        ...

    def transform(
        self,
        path: Path,
        *,
        model_name: str = "",
        model_data: Path | None = None,
        input_shapes: Shapes = (),
        output_names: Sequence[str] = (),
        preprocess: Mapping[str, Any] | None = None,
    ) -> Module:
        """Import a network and optimise it: a TOP module. `preprocess`: see `ImportOptions`."""
        ...

    def verify_transform(
        self,
        path: Path,
        module: Module,
        *,
        test_input: Sequence[Path],
        test_result: Path | None = None,
        excepts: Sequence[str] = (),
        tolerance: Sequence[float] = (),
    ) -> Report:
        """Compare the module with the framework on an input; raises TpucError below the tolerance."""
        ...

    def calibrate(
        self,
        module: Module,
        *,
        dataset: Path | None = None,
        data_list: Path | None = None,
        input_num: int = 0,
        method: str = "kld",
        tune_num: int = 10,
        histogram_bin_num: int = 2048,
    ) -> CalibrationTable:
        """Run sample data through the module."""
        ...

    def compile(
        self,
        path: Path,
        model: Path,
        *,
        input_shapes: Shapes = (),
        output_names: Sequence[str] = (),
        dataset: Path | None = None,
        data_list: Path | None = None,
        input_num: int = 0,
        calibration_table: Path | None = None,
        calibration_method: str = "kld",
        test_input: Sequence[Path] = (),
        tolerance: Sequence[float] = (),
    ) -> Report:
        """The whole pipeline, from a network file to the compiled file `model`."""
        ...

    def deploy(
        self,
        module: Module,
        model: Path,
        *,
        calibration_table: Path | None = None,
        quantize_table: Path | None = None,
        test_input: Sequence[Path] = (),
        test_reference: Path | None = None,
        excepts: Sequence[str] = (),
        tolerance: Sequence[float] = (),
    ) -> Report:
        """Lower a TOP module, compile it to the file `model`, and compare the stages on an input if one is given."""
        ...

    def run(self, path: Path, inputs: Sequence[Path], *, dump_all_tensors: bool = False) -> Mapping[str, Any]:
        """Execute any runnable file on npz, npy or images: arrays by name."""
        ...

    def profile(self, path: Path, *, profile: str | None = None) -> Report:
        """Cycles, DDR traffic and timeline of a compiled file."""
        ...

    def disassemble(self, path: Path) -> str:
        """The commands of a compiled file as text."""
        ...


def open_session(
    app: App,
    *,
    chip: str | None = None,
    quantize: str = "f32",
    work_dir: Path | None = None,
    symmetric_divisor: int | None = None,
) -> Session:
    """A session with the user's choices; raises UsageError when the chip does not have the mode."""
    if chip is not None:
        check_mode(app.registry.get("tpuc.chips", chip), quantize)
    make = cast("Callable[..., Session]", importlib.import_module("tpuc.session").Session)
    return make(
        app.registry,
        chip=chip,
        quantize=quantize,
        work_dir=work_dir,
        symmetric_divisor=symmetric_divisor,
        pipelines=app.pipelines,
        progress=app.progress,
        log=app.log,
    )


def check_mode(chip: Chip, mode: str) -> None:
    """Raise UsageError for a mode that the chip does not have."""
    known = chip.description.modes
    if mode not in known:
        raise UsageError(f"chip '{chip.description.name}' has no mode '{mode}'. Modes: {', '.join(known)}.")


def check_inputs(*paths: Path | None) -> None:
    """Raise FileNotFoundError for the first path that is not there: better before a long run than during it."""
    for path in paths:
        if path is not None and not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def check_one_data_source(dataset: Path | None, data_list: Path | None, required: bool = False) -> None:
    """Raise UsageError unless samples come from one place only."""
    if dataset is not None and data_list is not None:
        raise UsageError("--dataset and --data-list both name samples; give one of them.")
    if required and dataset is None and data_list is None:
        raise UsageError("no samples to calibrate with; give --dataset DIR or --data-list FILE.")


def write_report(report: Report, path: Path) -> None:
    """The report as a JSON file."""
    import json

    from tpuc.files import write_atomic

    write_atomic(path, json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n")
