"""Networks before compilation: imported ones, and quantized ones with their ranges."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, Unpack

from tpuc.api.chip import FLOAT_MODES
from tpuc.errors import CalibrationError, Unsupported, UsageError, visible_lines
from tpuc.ir import Module, Operation, TensorType
from tpuc.ir.traits import NetworkInput
from tpuc.npz import write_npz

from tpuc_driver.data import Labels, inputs_of, labels_named
from tpuc_driver.facade.arrays import Array, Given, as_path, is_path, named_arrays, samples_of
from tpuc_driver.facade.compiled import CompiledNetwork, stacked
from tpuc_driver.facade.remarks import make_session, paths_in
from tpuc_driver.facade.shown import Section, html_of
from tpuc_driver.session import Boundary
from tpuc_driver.session.artifacts import described_inputs
from tpuc_driver.session.modes import is_quantised
from tpuc_driver.session.pipeline import finish, prepared, write
from tpuc_driver.session.running import module_runner
from tpuc_driver.session.settings import (
    CalibrationSettings,
    CompileSettings,
    DeploySettings,
    NetworkSettings,
    check_settings,
    chosen,
)
from tpuc_driver.session.stages.calibrate import calibrate
from tpuc_driver.session.values import Calibrated


class CompileOptions(TypedDict, total=False):
    """How a network is compiled, by the names of the command line's options.

    `quantize_table` says which ops are computed in which mode: a file, or modes by names. `boundary`: what goes in and
    comes out. The file keeps `labels`, names of classes: themselves, a packaged list by its name, or a file of lines.
    `planner` and `opt`, 1 to 3: how memory is planned. `runtime_version` is that of the runtime which is to
    take the file, `cpu_ops` are ops that it may compute on the processor. With `min_agreement` it is an error when less
    than this share of an output's decisions are kept; with `min_accuracy` the cheapest network is searched that has
    this figure (`"0.99"`) or so much of the float network's (`"99%"`) by `measure`, in `max_trials`: as the lower
    end of its 95 % interval on held-out samples, or with `accept_point_estimate` as the figure there. The stages are
    compared on `test_input`, a file.
    """

    quantize_table: str | Path | Mapping[str, str] | None
    boundary: Boundary | None
    labels: str | Sequence[str]
    planner: str | None
    opt: int | None
    runtime_version: str | None
    cpu_ops: Sequence[str]
    min_agreement: float | None
    min_accuracy: str | None
    measure: str | None
    max_trials: int | None
    accept_point_estimate: bool
    test_input: str | Path | Sequence[Path]
    tolerance: Sequence[float]


class LoadOptions(TypedDict, total=False):
    """How a network file is read, by the names of the command line's options.

    `model_data` is the file of its weights, where they are apart; `batch` becomes the leading extent of every input;
    `output_names` cut the network, `input_names` at its front; `dims` are extents of open dimensions by their symbols,
    and `fixed_inputs` numbers or arrays for inputs that become constants; `preprocess` says how images become inputs,
    as a preset by its name (`"imagenet-torch"`) or by mean, std, scale, pixel_format, ..., `post` which post-processing
    to put behind it; `random_weights` draws weights that are not there.
    """

    model_data: str | Path | None
    input_shapes: Sequence[Sequence[int]]
    batch: int | None
    output_names: Sequence[str]
    input_names: Sequence[str]
    dims: Mapping[str, int] | None
    fixed_inputs: Mapping[str, Any] | None
    preprocess: str | Mapping[str, Any] | None
    post: str | None
    random_weights: bool


def load(path: str | os.PathLike[str], *, input_layout: str | None = None, **options: Unpack[LoadOptions]) -> Network:
    """Read a network file of any installed format, or a `.mlir` file; the network is optimised for no chip yet.

    `input_layout` says how arrays for inputs lie, `nchw` or `nhwc`, where their shapes leave it open.
    """
    source, session = Path(path), make_session(input_layout=input_layout)
    check_settings(options, LoadOptions)
    if not source.exists():
        raise UsageError(f"{source}: no such file.")
    if source.suffix.lower() == ".mlir":
        if options:
            raise UsageError(
                f"{source} is a module, which already contains these settings; leave out {', '.join(options)}."
            )
        return Network(session.load(source))
    settings = paths_in(options, ("model_data",))
    if isinstance(settings.get("preprocess"), str):
        settings["preprocess"] = {"preset": settings["preprocess"]}
    try:
        return Network(session.transform(source, **NetworkSettings(**settings)))
    except Unsupported:
        if any(chip.description.suffix == source.suffix for _, chip in session.registry.usable("tpuc.chips")):
            raise UsageError(f"{source} is a compiled file; open it with tpuc.load_compiled.") from None
        raise


class Network:
    """A network as it was read: a TOP module. It runs on the host, in floats where the file has floats."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._session = make_session()

    @property
    def name(self) -> str:
        """Of the module."""
        return self.module.name

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs by their names."""
        return {one.name: one.shape for one in inputs_of(self.module)}

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the outputs by their names."""
        return {value.name: value.tensor.dims for value in self.module.main.outputs}

    @property
    def flops(self) -> int:
        """Arithmetic operations of one run."""
        return sum(operation.op.flops(operation.node()) for operation in self.module.walk())

    def run(self, inputs: Given, *, everything: bool = False) -> dict[str, Array]:
        """The outputs by name, or with `everything` all values, computed on the host.

        `inputs` is an array where there is one input, a mapping from names to arrays, or a file of samples. Several
        samples behind a leading axis give results with that axis.
        """
        runner = module_runner(self.module, everything, self._session.remark)
        samples = samples_of(runner.inputs, inputs, self._session.registry)
        return stacked([runner.run(sample) for sample in samples])

    def quantize(
        self,
        samples: Given | None = None,
        *,
        mode: str = "int8",
        method: str = "kld",
        input_num: int = 0,
        tune_num: int | None = None,
        bias_num: int | None = None,
        table: str | os.PathLike[str] | None = None,
    ) -> QuantizedNetwork:
        """Find ranges of all values on samples: a folder or file, or arrays with several samples behind a leading axis.

        `table` is a calibration table made earlier; samples beside it only check the result. `method` is how
        thresholds are chosen; `tune_num` and `bias_num` samples tune them and correct biases; `input_num` samples are
        used, 0 is all.
        """
        mode = mode.lower().replace("_", "-")
        if mode in FLOAT_MODES:
            raise UsageError(f"mode {mode} needs no calibration; call network.compile(..., mode='{mode}').")
        if samples is None and table is None:
            raise UsageError("no calibration data; give samples, or a calibration table with table=FILE.")
        held = None if samples is None else Samples.of(self, samples)
        if table is not None:
            return QuantizedNetwork(self, mode, Calibrated(Path(table), None), held)
        assert held is not None
        numbers = {"tune_num": tune_num, "bias_num": bias_num}
        options = {name: value for name, value in numbers.items() if value is not None}
        settings = CalibrationSettings(
            dataset=held.path,
            input_num=input_num,
            method=method,
            options={"lint": True, "hold_out": True, **options},
        )
        return QuantizedNetwork(self, mode, calibrate(self._session.configuration, self.module, settings), held)

    def compile(self, chip: str, *, mode: str | None = None, **options: Unpack[CompileOptions]) -> CompiledNetwork:
        """Compile as it is: in a float mode, the chip's most exact one if none is named, or in the integers of a
        network that is quantised already.
        """
        return _compiled(self, chip, mode, options)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the module as a `.mlir` file, with its weights beside it."""
        target = Path(path)
        self._session.save(self.module, target)
        return target

    def __repr__(self) -> str:
        border = [
            f"{kind} '{name}': {'x'.join(map(str, shape))}"
            for kind, shapes in (("input", self.inputs), ("output", self.outputs))
            for name, shape in shapes.items()
        ]
        return visible_lines(
            (f"Network '{self.name}': {len(self._computed())} ops, {self.flops:,} operations", *border)
        )

    def _repr_html_(self) -> str:
        rows = [
            (
                str(number),
                operation.op.name,
                operation.name,
                ", ".join(value.name for value in operation.operands if value.name and not value.is_constant),
                ", ".join(_shape(value.type) for value in operation.results),
                f"{operation.op.flops(operation.node()):,}",
            )
            for number, operation in enumerate(self._computed(), 1)
        ]
        head = ("", "op", "name", "operands", "result", "operations")
        return html_of(repr(self).replace("\n", "; "), [Section("Ops", head, rows)])

    def _computed(self) -> list[Operation]:
        operations = (one for one in self.module.main.operations if one.results and one.operands)
        return [one for one in operations if not isinstance(one.op, NetworkInput)]


def _shape(type: object) -> str:
    if not isinstance(type, TensorType):
        return "none"
    return f"{'x'.join(map(str, type.dims))} {type.storage}"


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples in files: those of arrays lie in a folder that goes with this object."""

    path: Path
    folder: Path | None = field(default=None)

    @staticmethod
    def of(network: Network, given: Given) -> Samples:
        """Raises CalibrationError, UsageError for arrays that do not fit."""
        if is_path(given):
            path = as_path(given)
            if not path.exists():
                raise CalibrationError(f"{path}: no such file or folder of samples.")
            return Samples(path)
        arrays = named_arrays(inputs_of(network.module), given)
        folder = Path(tempfile.mkdtemp(prefix="tpuc-"))
        write_npz(folder / "samples.npz", arrays)
        samples = Samples(folder / "samples.npz", folder)
        weakref.finalize(samples, shutil.rmtree, folder, ignore_errors=True)
        return samples


class QuantizedNetwork:
    """A network with ranges of its values: what `Network.quantize` found on samples, or a table had."""

    def __init__(self, network: Network, mode: str, calibrated: Calibrated, samples: Samples | None) -> None:
        self.network = network
        self.mode = mode
        self.calibrated = calibrated
        self.samples = samples

    def compile(self, chip: str, **options: Unpack[CompileOptions]) -> CompiledNetwork:
        """Compile for a chip. On samples that were held out, or else on all, it is compared with the float network; a
        remark says so where it keeps few decisions.
        """
        return _compiled(self.network, chip, self.mode, options, self)

    def save_table(self, path: str | os.PathLike[str]) -> Path:
        """Write the calibration table."""
        target, table = Path(path), self.calibrated.table
        if isinstance(table, Path):
            shutil.copyfile(table, target)
        else:
            table.write(target)
        return target

    def __repr__(self) -> str:
        return f"Quantized{self.network!r}\nmode: {self.mode}"

    def _repr_html_(self) -> str:
        return self.network._repr_html_()  # pyright: ignore[reportPrivateUsage]  # a name that notebooks give


def _compiled(
    network: Network, chip: str, mode: str | None, options: CompileOptions, quantized: QuantizedNetwork | None = None
) -> CompiledNetwork:
    check_settings(options, CompileOptions)
    mode = mode and mode.lower().replace("_", "-")
    session = make_session(
        chip=chip,
        mode=mode,
        planner=options.get("planner"),
        opt=options.get("opt"),
        runtime_version=options.get("runtime_version"),
        cpu_ops=options.get("cpu_ops", ()),
    )
    module, description = network.module.clone(), session.chip.description
    is_integer = description.float_mode is None if mode is None else mode not in FLOAT_MODES
    if quantized is None and is_integer and not is_quantised(module):
        raise CalibrationError(
            f"{network.name}: {mode or 'the chip computes with integers only, which'} needs calibrated ranges; "
            f"quantize the network first: network.quantize(samples).compile('{description.name}')."
        )
    settings = CompileSettings(**chosen(_with_paths(options), CompileSettings))
    if quantized is not None:
        settings["calibration_table"] = quantized.calibrated.table
        if quantized.samples is not None:
            settings["dataset"] = quantized.samples.path
    target = Path(f"{module.name}{description.suffix}")
    deploy = prepared(session.configuration, target, module, settings)
    if quantized is not None and quantized.calibrated.held_out is not None and not options.get("min_accuracy"):
        deploy |= DeploySettings(check_samples=quantized.calibrated.held_out, tuned=False)
    done = finish(session.configuration, module, target, deploy)
    plan = done.report.memory_plan
    return CompiledNetwork(
        target.name,
        done.report,
        () if plan is None else plan.layers,
        session,
        session.chip,
        done.loaded,
        described_inputs(inputs_of(done.built.module)),
        lambda path: write(session.configuration, done, path),
    )


def _with_paths(options: CompileOptions) -> dict[str, Any]:
    found = paths_in(options, ("quantize_table", "test_input"))
    if isinstance(found.get("test_input"), Path):
        found["test_input"] = (found["test_input"],)
    labels = options.get("labels", "")
    found["labels"] = labels_named(labels) if isinstance(labels, str) else Labels("labels", tuple(labels))
    return found
