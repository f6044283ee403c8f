"""A session: a registry, a chip, and a mode, which turn networks into modules, files, and reports."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import numpy.typing as npt
from tpuc.api.chip import FLOAT_MODES, Chip, LoadedModel
from tpuc.api.cpu import check_cpu_ops
from tpuc.errors import PluginError, Unsupported, UsageError
from tpuc.files import file_stem, weights_beside
from tpuc.interpreter.values import real_values
from tpuc.ir import Module, TensorType
from tpuc.ir.attributes import StringAttr
from tpuc.ir.text import read_module, write_module
from tpuc.ir.text.files import WEIGHT_FILE, weight_file_of
from tpuc.registry import Registry, left_out, tell_left_out
from tpuc.schedule import PIPELINES, PassContext, PassManager, Pipelines
from tpuc.schedule.results import POSTPROCESS, ResultKey

from tpuc_driver.api.answers import RunSample
from tpuc_driver.data import INPUT_LAYOUT, check_channels, described, inputs_of, is_picture
from tpuc_driver.session import building
from tpuc_driver.session.artifacts import Described, is_compiled_folder
from tpuc_driver.session.boundary import Boundary
from tpuc_driver.session.building import Built, Recipe, Shapes
from tpuc_driver.session.calibrated_on import calibrated_on
from tpuc_driver.session.checking import check_mode
from tpuc_driver.session.combining import FIRST, Choice, CompiledFile
from tpuc_driver.session.importing import keep_simplified, read_network, reads, verify_import
from tpuc_driver.session.reports import CompileReport, ProfileReport, SelfCheck, StageComparison, shown_tensor
from tpuc_driver.session.running import (
    QUANTISED_BITS,
    Runner,
    as_stored,
    compiled_inputs,
    is_quantised,
    module_runner,
    named_samples,
    profile_report,
    stacked,
    stored_bits,
    with_divisor,
)
from tpuc_driver.session.settings import (
    CalibrationSettings,
    CompileSettings,
    DeploySettings,
    NetworkSettings,
    TransformTestSettings,
    check_settings,
    chosen,
)

Array: TypeAlias = npt.NDArray[Any]
Progress: TypeAlias = Callable[[Iterable[Any], str, "int | None"], Iterable[Any]]


def _silent(_: str) -> None: ...


def _plain(items: Iterable[Any], _label: str, _total: int | None = None) -> Iterable[Any]:
    return items


class Session:
    """The pipeline for one chip and mode.

    `chip` may be None for what needs none (transform, calibrate, run). Without `quantize` the network and the chip
    decide, as `mode_for` says. `work_dir` keeps every intermediate module;
    `symmetric_divisor` replaces the chip's own for signed symmetric scales, `planner` the usual memory planner; `opt`
    is the level of planning local memory, 1 to 3; `input_layout` says how arrays for inputs lie, `nchw` or `nhwc`,
    where their shapes do not. `runtime_version` is that of the runtime which is to take the file.
    `cpu_ops` names the ops of TOP, or `all`, that the chip's runtime may compute on the processor.
    `targets` and `pools` are for chips of functions: who runs the network, and memory pools by the options of the
    command line that describe them. `trust` vouches for
    code in compiled files that another installation wrote. Raises UsageError for a mode that the chip does not have.
    """

    def __init__(
        self,
        registry: Registry | None = None,
        *,
        chip: str | None = None,
        quantize: str | None = None,
        work_dir: Path | None = None,
        symmetric_divisor: int | None = None,
        runtime_version: str | None = None,
        planner: str | None = None,
        opt: int | None = None,
        cpu_ops: Sequence[str] = (),
        input_layout: str | None = None,
        trust: bool = False,
        targets: Sequence[str] = (),
        pools: Mapping[str, str] | None = None,
        pipelines: Pipelines = PIPELINES,
        progress: Progress = _plain,
        log: Callable[[str], None] = _silent,
        remark: Callable[[str], None] = _silent,
    ) -> None:
        self.registry = registry if registry is not None else Registry()
        self.mode = quantize
        self.work_dir = work_dir
        self.planner = planner
        self.opt = opt
        self.cpu_ops = tuple(cpu_ops)
        self.input_layout = input_layout
        self.trust = trust
        self.targets = tuple(targets)
        self.pools = dict(pools or {})
        self.pipelines = pipelines
        self.progress = progress
        self.log = log
        self.remark = remark
        self.seconds: dict[str, float] = {}
        self._chip: Chip | None = None
        if chip is not None:
            found: Chip = self.registry.get("tpuc.chips", chip)
            self._chip = with_divisor(
                found if runtime_version is None else found.for_runtime(runtime_version), symmetric_divisor
            )
            check_mode(self._chip, quantize)
            check_cpu_ops(self.registry, self._chip.description, self.cpu_ops)

    @property
    def chip(self) -> Chip:
        """The chip; raises UsageError when none was chosen."""
        if self._chip is None:
            raise UsageError("no chip is chosen; add --chip NAME")
        return self._chip

    # Modules in files

    def load(self, path: Path) -> Module:
        """A `.mlir` file with its weights."""
        return self._laid_out(read_module(path, self.registry.resolve_op))

    def _laid_out(self, module: Module) -> Module:
        """The module, which takes arrays as the user said."""
        if self.input_layout:
            module.attributes[INPUT_LAYOUT] = StringAttr(self.input_layout)
        return module

    def save(self, module: Module, path: Path, weights: str | None = None) -> None:
        """Write a `.mlir` file and its weights beside it, in a file of that name if one is given."""
        if module.weights.missing is None:
            module.attributes[WEIGHT_FILE] = StringAttr(weights or weights_beside(path))
        write_module(path, module)
        self.registry.hooks.hook.module_dumped(path=path, module=module)

    def keep(self, module: Module, suffix: str, folder: Path | None = None) -> None:
        """Save an intermediate module in `work_dir`, where there is one, else in `folder` if that is given."""
        folder = self.work_dir or folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self.save(module, folder / f"{file_stem(module.name)}{suffix}.mlir")

    def keep_origin(self, module: Module, folder: Path | None) -> None:
        """As `keep`, of a module as it was read: its weights lie in the file that its front end names."""
        folder = self.work_dir or folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self.save(module, folder / f"{file_stem(module.name)}_origin.mlir", weight_file_of(module))

    # Stages

    def mode_for(self, module: Module) -> str:
        """The mode to compile a TOP module in: the one that was asked for, else the chip's most exact float mode.

        Empty where nobody asked and the network is quantised already: lowering finds its integer mode. Raises
        UsageError for a chip without float modes.
        """
        if self.mode is not None:
            return self.mode
        if is_quantised(module):
            return ""
        description = self.chip.description
        if description.float_mode is None:
            raise UsageError(
                f"chip '{description.name}' computes with integers only, and {module.name} is not quantized; choose a "
                f"mode with --quantize: {', '.join(description.modes)}."
            )
        return description.float_mode

    def mode_used(self, module: Module) -> str:
        """The mode that a TOP module is lowered in; a network that is quantised already keeps its integers.

        Only values of more bits than chips have integers for become floats, where a float mode was asked for.
        """
        asked, own = self.mode_for(module), self.chip.description.quantised_mode
        bits = stored_bits(module)
        return own if bits and (bits <= QUANTISED_BITS or asked not in FLOAT_MODES) else asked

    def context(self, results: dict[ResultKey[Any], Any] | None = None, mode: str | None = None) -> PassContext:
        """The surroundings of a pass run in this session; `mode` where the session was not told one."""
        options: dict[str, Any] = {"quantize": self.mode or mode or "", "planner": self.planner, "opt": self.opt}
        options |= {"target": self.targets, "pools": self.pools, "cpu_ops": self.cpu_ops}
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        if epoch is not None:
            options["build_time"] = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(int(epoch)))
        return PassContext(
            self.registry,
            self._chip,
            options,
            self.work_dir,
            {} if results is None else results,
            self.log,
            self.progress,
            self.remark,
        )

    @contextmanager
    def timed(self, stage: str) -> Generator[None]:
        """Add the time of the block to what `seconds` says of a stage."""
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def manager(self, context: PassContext) -> PassManager:
        """Of this session's pipelines."""
        return PassManager(context, pipelines=self.pipelines)

    def transform(self, path: Path, **settings: Unpack[NetworkSettings]) -> Module:
        """Import a network file and optimise it: a TOP module."""
        check_settings(settings, NetworkSettings)
        settings["preprocess"] = described(settings.get("preprocess") or {}, self.registry, self.remark)
        with self.timed("import"):
            module = self._laid_out(read_network(self.registry, path, settings))
            folder = settings.get("keep_in")
            if folder is not None:
                keep_simplified(self.registry, path, settings, folder)
        self.keep_origin(module, folder)
        with self.timed("optimise"):
            context = self.context({POSTPROCESS: settings.get("post") or ""})
            self.manager(context).run_pipeline("top-optimize", module)
        self.keep(module, "")
        return module

    def verify_transform(
        self, path: Path, module: Module, **settings: Unpack[TransformTestSettings]
    ) -> StageComparison:
        """Compare a TOP module with another engine on the network file; raises TpucError below the tolerance."""
        check_settings(settings, TransformTestSettings)
        return verify_import(self.registry, path, module, **settings)

    def calibrate(self, module: Module, **settings: Unpack[CalibrationSettings]) -> Any:
        """Run sample data through a TOP module: a calibration table with `write(path)`."""
        check_settings(settings, CalibrationSettings)
        return building.calibrate(self, module, settings).table

    def calibrate_and_check(
        self, module: Module, **settings: Unpack[CalibrationSettings]
    ) -> tuple[Any, SelfCheck | None]:
        """As `calibrate`, with some samples held out where there are many: on these the network that is quantised by
        the table is compared with the float one. Raises CalibrationError where it keeps fewer decisions than
        `min_agreement` says; a remark says where it keeps few.
        """
        check_settings(settings, CalibrationSettings)
        return building.calibrate_and_check(self, module, settings)

    def compile(self, path: Path, model: Path, **settings: Unpack[CompileSettings]) -> CompileReport:
        """The whole pipeline, from a network file to the compiled file `model`."""
        check_settings(settings, CompileSettings)
        module = self.transform(path, **NetworkSettings(**chosen(settings, NetworkSettings)))
        check_channels(inputs_of(module))
        return self.deploy(module, model, **building.prepared(self, path, module, settings))

    def compile_shapes(
        self,
        path: Path,
        model: Path,
        shapes: Sequence[Shapes],
        batches: Sequence[int | None] = (None,),
        **settings: Unpack[CompileSettings],
    ) -> list[CompileReport]:
        """As `compile`, for several sets of `shapes` of the inputs, each with all `batches`, in one file, which holds
        the weights once.
        """
        check_settings(settings, CompileSettings)
        return building.compile_shapes(self, path, model, settings, shapes, batches)

    def deploy(self, module: Module, model: Path, **settings: Unpack[DeploySettings]) -> CompileReport:
        """Lower a TOP module and write the compiled file, once its commands are legal and its waits complete.

        With `test_input` the stages are compared on it before the file is written: TOP with TPU, TPU with simulator.
        Where `boundary` fuses the preprocessing, that input are images or the bytes that the file takes.
        """
        check_settings(settings, DeploySettings)
        return building.deploy(self, module, model, settings)

    def build(
        self,
        module: Module,
        calibration_table: Any = None,
        quantize_table: Path | Mapping[str, str] | None = None,
        *,
        boundary: Boundary | None = None,
        after_lowering: Callable[[Module], None] | None = None,
    ) -> Built:
        """The addressed TPU module, the bytes of the compiled file and its memory plan. The TOP module stays as it is.

        `after_lowering` may change the TPU module before memory is planned.
        """
        return building.build(self, module, Recipe(calibration_table, quantize_table, boundary, after_lowering))

    # Running

    def simulate(self, chip: Chip, loaded: LoadedModel, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run a loaded file; hook plugins may observe or wrap it."""
        hook = self.registry.hooks.hook
        return hook.simulate(chip=chip, inputs=inputs, proceed=lambda: loaded.run(inputs))

    def open(self, path: Path) -> tuple[Chip, LoadedModel]:
        """A compiled file and the installed chip that it is for; raises Unsupported when there is none.

        Of several networks in it the first one.
        """
        file = self.opened(path)
        return file.chip, file.load(0)

    def open_described(self, path: Path) -> tuple[Chip, LoadedModel, Described]:
        """As `open`, and what the file says of the network's inputs."""
        file = self.opened(path)
        return file.chip, file.load(0), file.described(0)

    def opened(self, path: Path) -> CompiledFile:
        """The networks of a compiled file; raises Unsupported when no installed chip reads it."""
        failed: list[PluginError] = []
        chips: list[Chip] = [chip for _, chip in self.registry.usable("tpuc.chips", failed)]
        candidates = [
            chip for chip in chips if chip.description.suffix == path.suffix or is_compiled_folder(chip, path)
        ]
        if not candidates:
            suffixes = sorted({chip.description.suffix for chip in chips})
            raise Unsupported(
                f"{path}: no installed chip reads files of type '{path.suffix}'; there are "
                f"{', '.join(suffixes)}{left_out(failed)}"
            )
        tell_left_out(failed)
        for chip in candidates[:-1]:
            try:
                return CompiledFile.read(chip, path, self.trust)
            except Unsupported as error:  # the file says that it is for another chip
                self.log(f"{error}")
        return CompiledFile.read(candidates[-1], path, self.trust)

    def describes_inputs(self, path: Path) -> bool:
        """Does a file say itself how images become its inputs? Modules do, compiled files where they were told."""
        if path.suffix.lower() == ".mlir":
            return True
        return not self.is_network(path) and any(one.inputs for one in self.opened(path).descriptions)

    def calibrated_on(self, path: Path) -> frozenset[str]:
        """The fingerprints of the samples that a network was calibrated on, as far as its file says them."""
        if path.suffix.lower() == ".mlir":
            return frozenset(calibrated_on(self.load(path)))
        if self.is_network(path):
            return frozenset()
        return frozenset(one for told in self.opened(path).descriptions for one in told.calibrated_on)

    def run(
        self,
        path: Path,
        inputs: Sequence[Path],
        *,
        preprocess: Mapping[str, Any] | None = None,
        dump_all_tensors: bool = False,
    ) -> dict[str, Array]:
        """Execute any runnable file. Several samples in the input give results with one more leading axis.

        Inputs of quantised integers take integers as they are; float data are quantised, with a remark. `preprocess`
        says how images become inputs where the file does not.
        """
        each = self.run_each(path, inputs, preprocess=preprocess, dump_all_tensors=dump_all_tensors)
        return stacked([one.outputs for one in each])

    def run_each(
        self,
        path: Path,
        inputs: Sequence[Path],
        *,
        preprocess: Mapping[str, Any] | None = None,
        dump_all_tensors: bool = False,
        network: str | None = None,
    ) -> Iterator[RunSample]:
        """As `run`, one sample after the other, with its name and what the values mean.

        Of a compiled file with several networks `network` is the one to run; of several shapes that one is taken which
        the inputs have.
        """
        choice = Choice(network, tuple(inputs))
        runner = self.runner(path, preprocess or {}, everything=dump_all_tensors, choice=choice)
        for info in runner.compiled_outputs:
            if (text := shown_tensor(info)) != shown_tensor(info, plain=True):
                self.remark(f"output {text}")
        for files, sample in self.progress(named_samples(runner.inputs, inputs, self.registry), "running", None):
            outputs = runner.run(sample)
            picture = files[0] if len(files) == 1 and is_picture(self.registry, files[0]) else None
            values = {name: real_values(array, runner.outputs[name]) for name, array in outputs.items()}
            name = ", ".join(map(str, files))
            yield RunSample(name, files, picture, runner.inputs, outputs, values, runner.postprocess, runner.labels)

    def runner(
        self, path: Path, preprocess: Mapping[str, Any], *, everything: bool = False, choice: Choice = FIRST
    ) -> Runner:
        """Any runnable file, ready to run; `choice` is for files with several networks."""
        if path.suffix.lower() == ".mlir" and preprocess:
            raise _said_twice(path, preprocess, "transform")
        if path.suffix.lower() == ".mlir" or self.is_network(path):
            module = self.load(path) if path.suffix.lower() == ".mlir" else self.transform(path, preprocess=preprocess)
            return module_runner(module, everything, self.remark)
        file = self.opened(path)
        place = choice.place(file)
        chip, loaded, stated = file.chip, file.load(place), file.described(place)
        if stated and preprocess:
            raise _said_twice(path, preprocess, "compile")
        said = described(preprocess, self.registry, self.remark)
        specs = compiled_inputs(loaded, stated, said, self.remark, self.input_layout or "")
        types = {info.name: TensorType(info.shape, info.element) for info in loaded.outputs}

        def run(sample: Mapping[str, Array]) -> dict[str, Array]:
            return self.simulate(chip, loaded, as_stored(specs, sample))

        own = file.description(place)
        return Runner(run, specs, types, tuple(loaded.outputs), own.postprocess, own.labels)

    def is_network(self, path: Path) -> bool:
        """Does a front end read files of this type?"""
        return reads(self.registry, path)

    def profile(self, path: Path, *, profile: str | None = None) -> ProfileReport:
        """Cycles, engine use and memory of a compiled file."""
        chip, loaded = self.open(path)
        return profile_report(path, chip, loaded, profile)

    def disassemble(self, path: Path) -> str:
        """Every command of a compiled file as text."""
        return self.open(path)[1].disassemble()


def _said_twice(path: Path, preprocess: Mapping[str, Any], command: str) -> UsageError:
    """The error of options that a file does not need."""
    names = sorted("preprocess" if name == "preset" else name for name in preprocess)
    options = ", ".join(f"--{name.replace('_', '-')}" for name in names)
    return UsageError(
        f"{path} says itself how images become its inputs. Leave out {options}, or {command} the network again with "
        "other ones."
    )
