"""Networks before compilation: imported and quantized ones."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from tpuc.api.chip import FLOAT_MODES
from tpuc.errors import CalibrationError, Unsupported, UsageError, visible_lines
from tpuc.files import file_stem
from tpuc.ir import Module, Operation, TensorType
from tpuc.ir.traits import NetworkInput

from tpuc_driver.data import Labels, inputs_of, labels_named
from tpuc_driver.facade.arrays import Array, Given, as_path, is_path, samples_of
from tpuc_driver.facade.compiled import Artifact, CompiledNetwork, check_suffix, stacked
from tpuc_driver.facade.measures import Measuring
from tpuc_driver.facade.objects import file_of
from tpuc_driver.facade.remarks import make_session, paths_in
from tpuc_driver.facade.samples import Samples
from tpuc_driver.facade.sentences import calling_it, in_sentences
from tpuc_driver.facade.shown import Section, html_of
from tpuc_driver.session import Boundary, Session
from tpuc_driver.session.modes import is_quantized
from tpuc_driver.session.pipeline import finish, prepared
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
    """Compilation options, named as on the command line.

    `quantize_table` sets modes of single ops: a file, or modes by name. `boundary`: the types of inputs and outputs.
    `labels`, stored in the file, are class names, a bundled list by name, or a text file. `planner` and `opt`, 1 to 3,
    select memory planning; `cores` of the chip may share the work. `runtime_version` is the target runtime's; `cpu_ops`
    are ops that it may compute on the processor. With `min_agreement` a lower prediction agreement of any output is an
    error; with `min_accuracy` the cheapest network is searched that reaches this figure (`"0.99"`) or this part of the
    float network's (`"99%"`) by `measure`, in `max_trials`: with the lower end of its 95 % interval on held-out
    samples, or with `accept_point_estimate` with the estimate itself. The stages are compared on `test_input`, a file.
    """

    quantize_table: str | Path | Mapping[str, str] | None
    boundary: Boundary | None
    labels: str | Sequence[str]
    planner: str | None
    opt: int | None
    cores: int | None
    runtime_version: str | None
    cpu_ops: Sequence[str]
    min_agreement: float | None
    min_accuracy: str | None
    measure: str | None
    max_trials: int | None
    accept_point_estimate: bool
    test_input: str | Path | Sequence[Path]
    tolerance: Sequence[float]


class Target(TypedDict):
    """The target of a compilation."""

    chip: str
    mode: str | None


class LoadOptions(TypedDict, total=False):
    """Options for reading a network file, named as on the command line.

    `model_data` is a separate file of weights; `batch` replaces the leading extent of every input; `output_names` cut
    the network at the end, `input_names` at the front; `dims` sets open dimensions by symbol, and `fixed_inputs` turns
    inputs into constants; `preprocess` describes how images become inputs, as a preset's name (`"imagenet-torch"`) or
    by mean, std, scale, pixel_format, ...; `post` names post-processing to append; `random_weights` draws missing
    weights. `model_name` is the network's name, by default the file's.
    """

    model_name: str
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


@in_sentences
def load(
    network: str | os.PathLike[str] | object,
    *,
    example_inputs: Any = None,
    input_layout: str | None = None,
    **options: Unpack[LoadOptions],
) -> Network:
    """Read a network: a file of any installed format, a `.mlir` file, or a network object. No chip is chosen yet.

    Objects are an `onnx.ModelProto`, the bytes of an ONNX or TFLite file, a `torch.export.ExportedProgram`, and a
    `torch.nn.Module` with `example_inputs`: tensors or arrays, by position or by name, with the shapes to compile for.
    `input_layout` is the layout of input arrays, `nchw` or `nhwc`, where their shapes are ambiguous.
    """
    session = make_session(input_layout=input_layout)
    check_settings(options, LoadOptions)
    if is_path(network):
        if example_inputs is not None:
            raise UsageError("a network file states the shapes of its inputs; leave out example_inputs.")
        return Network(_read(session, as_path(network), options))
    with tempfile.TemporaryDirectory(prefix="tpuc-") as place:
        folder = Path(place)
        with calling_it(folder, "memory"):
            path = file_of(network, example_inputs, session.registry, folder)
        with calling_it(path, path.stem):
            return Network(_read(session, path, options))


def _read(session: Session, source: Path, options: LoadOptions) -> Module:
    """The module of a file."""
    if not source.exists():
        raise UsageError(f"{source}: no such file.")
    if source.suffix.lower() == ".mlir":
        if options:
            raise UsageError(
                f"{source} is a module, which already contains these settings; leave out {', '.join(options)}."
            )
        return session.load(source)
    settings = paths_in(options, ("model_data",))
    if isinstance(settings.get("preprocess"), str):
        settings["preprocess"] = {"preset": settings["preprocess"]}
    session.configuration.clock.expect("import", "optimize")
    try:
        return session.transform(source, **NetworkSettings(**settings))
    except Unsupported:
        if any(chip.description.suffix == source.suffix for _, chip in session.registry.usable("tpuc.chips")):
            raise UsageError(f"{source} is a compiled file; open it with tpuc.load_compiled.") from None
        raise


class Network:
    """An imported network: a TOP module. It runs on the host, in floats where the file has floats."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._session = make_session()

    @property
    def name(self) -> str:
        """The module's name."""
        return self.module.name

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Input shapes by name."""
        return {one.name: one.shape for one in inputs_of(self.module)}

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """Output shapes by name."""
        return {value.name: value.tensor.dims for value in self.module.main.outputs}

    @property
    def flops(self) -> int:
        """Arithmetic operations of one run."""
        return sum(operation.op.flops(operation.node()) for operation in self.module.walk())

    @in_sentences
    def run(self, inputs: Given, *, everything: bool = False) -> dict[str, Array]:
        """Run on the host; returns the outputs by name, or with `everything` all values.

        `inputs` is an array if there is one input, a mapping from names to arrays, a file of samples, or an iterable of
        samples. Several samples, along a leading axis or one by one, give results with that axis.
        """
        runner = module_runner(self.module, everything, self._session.remark)
        samples = samples_of(runner.inputs, inputs, self._session.registry)
        return stacked([runner.run(sample) for sample in samples])

    @in_sentences
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
        force: bool = False,
    ) -> QuantizedNetwork:
        """Find the ranges of all values on samples: a folder or file, arrays with a leading axis of samples, or an
        iterable of samples, such as a generator or a `torch` `DataLoader`, which is read once.

        `table` is an existing calibration table; samples given with it only check the result. `method` chooses
        thresholds; `tune_num` samples tune them and `bias_num` correct biases; `input_num` limits the samples, 0 for
        all. `force` accepts samples of a single value.
        """
        mode = mode.lower().replace("_", "-")
        if mode in FLOAT_MODES:
            raise UsageError(f"mode {mode} needs no calibration; call network.compile(..., mode='{mode}').")
        if samples is None and table is None:
            raise UsageError("no calibration data; give samples, or a calibration table with table=FILE.")
        held = None if samples is None else Samples.of(inputs_of(self.module), samples, input_num)
        if table is not None:
            return QuantizedNetwork(self, mode, Calibrated(Path(table), None), held)
        assert held is not None
        numbers = {"tune_num": tune_num, "bias_num": bias_num}
        options = {name: value for name, value in numbers.items() if value is not None}
        settings = CalibrationSettings(
            dataset=held.path,
            input_num=input_num,
            method=method,
            options={"lint": True, "hold_out": True, "force": force, **options},
        )
        configuration = self._session.configuration
        configuration.clock.expect("calibrate")
        return QuantizedNetwork(self, mode, calibrate(configuration, self.module, settings), held)

    @in_sentences
    def compile(self, chip: str, *, mode: str | None = None, **options: Unpack[CompileOptions]) -> CompiledNetwork:
        """Compile without calibration: in a float mode, by default the chip's most precise one, or on the integers of a
        pre-quantized network.
        """
        return _compiled(self, chip, mode, options)

    @in_sentences
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the module as a `.mlir` file, with its weights next to it."""
        target = Path(path)
        check_suffix(target, ".mlir", "modules")
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


class QuantizedNetwork(Measuring):
    """A network with ranges from `Network.quantize` or a calibration table.

    Methods that run or measure it need a chip: `chip`, by default the one it was last compiled for.
    """

    def __init__(self, network: Network, mode: str, calibrated: Calibrated, samples: Samples | None) -> None:
        super().__init__()
        self.network = network
        self.mode = mode
        self.calibrated = calibrated
        self.samples = samples

    @in_sentences
    def compile(self, chip: str, **options: Unpack[CompileOptions]) -> CompiledNetwork:
        """Compile for a chip. The result is compared with the float network on held-out samples, or on all if none are
        held out; a remark warns of low prediction agreement.
        """
        compiled = _compiled(self.network, chip, self.mode, options, self)
        self.chip = compiled.chip
        return compiled

    @in_sentences
    def save_table(self, path: str | os.PathLike[str]) -> Path:
        """Write the calibration table."""
        target, table = Path(path), self.calibrated.table
        if isinstance(table, Path):
            shutil.copyfile(table, target)
        else:
            table.write(target)
        return target

    @property
    def _measured(self) -> Network:
        return self.network

    def _compiled_into(self, folder: Path, chip: str) -> CompiledNetwork:
        """Compile for a chip, and keep the modules in a folder."""
        self.network.save(folder / f"{file_stem(self.network.name)}.mlir")
        return _compiled(self.network, chip, self.mode, CompileOptions(), self, folder)

    def __repr__(self) -> str:
        return f"Quantized{self.network!r}\nmode: {self.mode}"

    def _repr_html_(self) -> str:
        return self.network._repr_html_()  # pyright: ignore[reportPrivateUsage]  # a name that notebooks give


def _compiled(
    network: Network,
    chip: str,
    mode: str | None,
    options: CompileOptions,
    quantized: QuantizedNetwork | None = None,
    work_dir: Path | None = None,
) -> CompiledNetwork:
    check_settings(options, CompileOptions)
    check_settings({"chip": chip, "mode": mode}, Target)
    mode = mode and mode.lower().replace("_", "-")
    session = make_session(
        chip=chip,
        mode=mode,
        planner=options.get("planner"),
        opt=options.get("opt"),
        cores=options.get("cores"),
        runtime_version=options.get("runtime_version"),
        cpu_ops=options.get("cpu_ops", ()),
        work_dir=work_dir,
    )
    session.configuration.clock.expect("lower", "finalize", "generate", "verify", "self-check")
    module, description = network.module.clone(), session.chip.description
    is_integer = description.float_mode is None if mode is None else mode not in FLOAT_MODES
    if quantized is None and is_integer and not is_quantized(module):
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
        Artifact(done.built.data, (done.description,), options.get("runtime_version")),
    )


def _with_paths(options: CompileOptions) -> dict[str, Any]:
    found = paths_in(options, ("quantize_table", "test_input"))
    if isinstance(found.get("test_input"), Path):
        found["test_input"] = (found["test_input"],)
    labels = options.get("labels", "")
    found["labels"] = labels_named(labels) if isinstance(labels, str) else Labels("labels", tuple(labels))
    return found
