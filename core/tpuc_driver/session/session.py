"""Session: a registry, a chip, and a mode, with methods that compile and run networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import numpy.typing as npt
from tpuc.api.chip import Chip, LoadedModel
from tpuc.interpreter.values import real_values
from tpuc.ir import Module
from tpuc.registry import Registry
from tpuc.schedule import PIPELINES, PassContext, PassManager, Pipelines
from tpuc.schedule.results import ResultKey

from tpuc_driver.api.answers import RunSample
from tpuc_driver.data import is_picture
from tpuc_driver.progress import Display
from tpuc_driver.session import pipeline
from tpuc_driver.session.artifacts import Described
from tpuc_driver.session.boundary import Boundary
from tpuc_driver.session.calibrated_on import calibrated_on
from tpuc_driver.session.combining import FIRST, Choice, CompiledFile
from tpuc_driver.session.configuration import Clock, Configuration, Progress, chosen_chip, silent, unseen
from tpuc_driver.session.importing import reads, verify_import
from tpuc_driver.session.modes import split_mode
from tpuc_driver.session.nonfinite import nonfinite_remarks
from tpuc_driver.session.opening import compiled_runner, opened, said_twice
from tpuc_driver.session.reports import CompileReport, ProfileReport, SelfCheck, StageComparison, shown_tensor
from tpuc_driver.session.running import (
    Runner,
    module_runner,
    named_samples,
    profile_report,
    simulate,
    stacked,
    stored_inputs,
)
from tpuc_driver.session.settings import (
    CalibrationSettings,
    CompileSettings,
    DeploySettings,
    NetworkSettings,
    TransformTestSettings,
    check_settings,
)
from tpuc_driver.session.stages.calibrate import calibrate
from tpuc_driver.session.values import Built, Recipe, Shapes
from tpuc_driver.session.weights import check_plain, weight_choice

Array: TypeAlias = npt.NDArray[Any]


class Session:
    """Compilation and execution for one chip and mode.

    `chip` may be None where none is needed (transform, calibrate, run). Without `quantize`, `mode_for` chooses the
    mode. `work_dir` receives every intermediate module; `symmetric_divisor` overrides the chip's divisor of signed
    symmetric scales, `planner` the default memory planner. `opt` is the level of local memory planning, 1 to 3.
    `cores` of the chip may share the work.
    `input_layout`, `nchw` or `nhwc`, is the layout of input arrays whose shapes do not show it. `runtime_version` is
    the version of the runtime to compile for. `cpu_ops` names the TOP ops, or `all`, that the chip's runtime may
    compute on the processor.

    `targets`, `pools`, and `layout` are for chips that emit functions: the targets that run the network, memory pools
    by the command-line options that describe them, and the firmware framework that takes the folder. `trust` vouches
    for code in compiled files from another installation. Raises UsageError for a mode that the chip does not have.
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
        cores: int | None = None,
        cpu_ops: Sequence[str] = (),
        input_layout: str | None = None,
        trust: bool = False,
        targets: Sequence[str] = (),
        pools: Mapping[str, str] | None = None,
        layout: str | None = None,
        pipelines: Pipelines = PIPELINES,
        progress: Progress = unseen,
        log: Callable[[str], None] = silent,
        remark: Callable[[str], None] = silent,
    ) -> None:
        registry = registry if registry is not None else Registry()
        found = None
        if chip is not None:
            found = chosen_chip(
                registry,
                chip,
                quantize,
                runtime_version=runtime_version,
                symmetric_divisor=symmetric_divisor,
                cpu_ops=cpu_ops,
                cores=cores or 1,
                layout=layout,
            )
        mode, bits = split_mode(quantize)
        self.configuration = Configuration(
            registry,
            found,
            mode=mode,
            weight_bits=bits,
            work_dir=work_dir,
            planner=planner,
            opt=opt,
            cores=cores or 1,
            cpu_ops=tuple(cpu_ops),
            input_layout=input_layout,
            trust=trust,
            targets=tuple(targets),
            pools=dict(pools or {}),
            pipelines=pipelines,
            progress=progress,
            log=log,
            remark=remark,
            clock=Clock(progress if isinstance(progress, Display) else None),
        )

    @property
    def registry(self) -> Registry:
        """The plugin registry."""
        return self.configuration.registry

    @property
    def chip(self) -> Chip:
        """The chip; raises UsageError if none was chosen."""
        return self.configuration.chip

    @property
    def mode(self) -> str | None:
        """The requested mode, as given in `quantize`."""
        return self.configuration.mode

    @property
    def remark(self) -> Callable[[str], None]:
        """Function that shows the user a one-sentence remark."""
        return self.configuration.remark

    @property
    def progress(self) -> Progress:
        """Function that passes items through and displays progress."""
        return self.configuration.progress

    def having(self, **changes: Any) -> Session:
        """Return a copy with some fields of its `Configuration` changed."""
        other = object.__new__(type(self))
        other.configuration = replace(self.configuration, **changes)
        return other

    # Modules in files

    def load(self, path: Path) -> Module:
        """Load a `.mlir` file with its weights."""
        return self.configuration.load(path)

    def save(self, module: Module, path: Path, weights: str | None = None) -> None:
        """Write a `.mlir` file, and its weights to a file beside it, named `weights` if given."""
        self.configuration.save(module, path, weights)

    # Passes

    def mode_for(self, module: Module) -> str:
        """Return the mode to compile a TOP module in; see `Configuration.mode_for`."""
        return self.configuration.mode_for(module)

    def mode_used(self, module: Module) -> str:
        """Return the mode that a TOP module is lowered in; see `Configuration.mode_used`."""
        return self.configuration.mode_used(module)

    def context(self, results: dict[ResultKey[Any], Any] | None = None, mode: str | None = None) -> PassContext:
        """Create the context for passes of this session; `mode` applies if the session has none."""
        return self.configuration.context(results, mode)

    def manager(self, context: PassContext) -> PassManager:
        """Create a manager with this session's pipelines."""
        return self.configuration.manager(context)

    # Stages

    def transform(self, path: Path, **settings: Unpack[NetworkSettings]) -> Module:
        """Import a network file as an optimized TOP module."""
        check_settings(settings, NetworkSettings)
        chosen = NetworkSettings(**weight_choice(self.configuration, settings))
        return pipeline.transform(self.configuration, path, chosen)

    def verify_transform(
        self, path: Path, module: Module, **settings: Unpack[TransformTestSettings]
    ) -> StageComparison:
        """Compare a TOP module with another engine on the network file; raises TpucError below the tolerance."""
        check_settings(settings, TransformTestSettings)
        return verify_import(self.registry, path, module, **settings)

    def calibrate(self, module: Module, **settings: Unpack[CalibrationSettings]) -> Any:
        """Calibrate a TOP module on samples; returns a calibration table with `write(path)`."""
        check_settings(settings, CalibrationSettings)
        return calibrate(self.configuration, module, settings).table

    def calibrate_and_check(
        self, module: Module, **settings: Unpack[CalibrationSettings]
    ) -> tuple[Any, SelfCheck | None]:
        """Like `calibrate`, then compare the network quantized by the table with the float network, on held-out samples
        if there are enough. Returns the table and the check. Raises CalibrationError if the share of equal
        predictions is below `min_agreement`; low agreement is remarked.
        """
        check_settings(settings, CalibrationSettings)
        return pipeline.calibrate_and_check(self.configuration, module, settings)

    def compile(self, path: Path, model: Path, **settings: Unpack[CompileSettings]) -> CompileReport:
        """Run the whole pipeline from a network file to the compiled file `model`."""
        check_settings(settings, CompileSettings)
        return pipeline.compile_network(self.configuration, path, model, settings)

    def compile_shapes(
        self,
        path: Path,
        model: Path,
        shapes: Sequence[Shapes],
        batches: Sequence[int | None] = (None,),
        **settings: Unpack[CompileSettings],
    ) -> list[CompileReport]:
        """Like `compile` for several sets of input `shapes`, each with all `batches`, in one file that shares the
        weights.
        """
        check_settings(settings, CompileSettings)
        return pipeline.compile_shapes(self.configuration, path, model, settings, shapes, batches)

    def deploy(self, module: Module, model: Path, **settings: Unpack[DeploySettings]) -> CompileReport:
        """Lower a TOP module, check that its commands are legal and its waits complete, and write the compiled file.

        With `test_input`, the stages are compared on it before the file is written: TOP with TPU, TPU with simulator.
        If `boundary` fuses the preprocessing, this input holds images, or the bytes that the file takes.
        """
        check_settings(settings, DeploySettings)
        check_plain(self.configuration, module)
        return pipeline.deploy(self.configuration, module, model, settings)

    def build(
        self,
        module: Module,
        calibration_table: Any = None,
        quantize_table: Path | Mapping[str, str] | None = None,
        *,
        boundary: Boundary | None = None,
        after_lowering: Callable[[Module], None] | None = None,
    ) -> Built:
        """Return the addressed TPU module, the bytes of the compiled file, and its memory plan. The TOP module is not
        changed.

        `after_lowering` may change the TPU module before memory is planned.
        """
        return pipeline.build(
            self.configuration, module, Recipe(calibration_table, quantize_table, boundary, after_lowering)
        )

    # Running

    def simulate(self, chip: Chip, loaded: LoadedModel, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run a loaded file; hook plugins may observe or wrap the call."""
        return simulate(self.registry, chip, loaded, inputs)

    def open(self, path: Path) -> tuple[Chip, LoadedModel]:
        """Open a compiled file; returns the installed chip that it is for and its first network. Raises Unsupported if
        no installed chip reads it.
        """
        file = self.opened(path)
        return file.chip, file.load(0)

    def open_described(self, path: Path) -> tuple[Chip, LoadedModel, Described]:
        """Like `open`, with the preprocessing of the network's inputs."""
        file = self.opened(path)
        return file.chip, file.load(0), file.described(0)

    def opened(self, path: Path) -> CompiledFile:
        """Open a compiled file with all its networks; raises Unsupported if no installed chip reads it."""
        return opened(self.configuration, path)

    def describes_inputs(self, path: Path) -> bool:
        """Return whether a file states the preprocessing of its inputs: modules do, compiled files if it was
        recorded.
        """
        if path.suffix.lower() == ".mlir":
            return True
        return not self.is_network(path) and any(one.inputs for one in self.opened(path).descriptions)

    def calibrated_on(self, path: Path) -> frozenset[str]:
        """Return the fingerprints of the samples that a network was calibrated on, as recorded in its file."""
        if path.suffix.lower() == ".mlir":
            return frozenset(calibrated_on(self.load(path)))
        if self.is_network(path):
            return frozenset()
        return frozenset(one for entry in self.opened(path).descriptions for one in entry.calibrated_on)

    def run(
        self,
        path: Path,
        inputs: Sequence[Path],
        *,
        preprocess: Mapping[str, Any] | None = None,
        dump_all_tensors: bool = False,
    ) -> dict[str, Array]:
        """Run any runnable file. Results of several samples are stacked along a new leading axis.

        Quantized inputs take integers unchanged; floats are quantized, with a remark. `preprocess` describes the
        preprocessing of images if the file does not.
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
        """Like `run`, but yield one sample at a time, with its name and the real values of its outputs.

        `network` selects one of several networks in a compiled file; the input shapes select one of its sets of shapes.
        """
        choice = Choice(network, tuple(inputs))
        runner = self.runner(path, preprocess or {}, everything=dump_all_tensors, choice=choice)
        for info in runner.compiled_outputs:
            if (text := shown_tensor(info)) != shown_tensor(info, plain=True):
                self.remark(f"output {text}")
        said = set[str]()
        for files, sample in self.progress(named_samples(runner.inputs, inputs, self.registry), "running", None):
            outputs = runner.run(sample)
            picture = files[0] if len(files) == 1 and is_picture(self.registry, files[0]) else None
            values = {name: real_values(array, runner.outputs[name]) for name, array in outputs.items()}
            name = ", ".join(map(str, files))
            for output, text in nonfinite_remarks(name, values, partial(runner.since, sample)):
                if output not in said:
                    self.remark(text)
                    said.add(output)
            fields = (runner.inputs, outputs, values, runner.postprocess, runner.labels)
            yield RunSample(name, files, picture, *fields, stored=stored_inputs(runner.inputs, sample))

    def runner(
        self, path: Path, preprocess: Mapping[str, Any], *, everything: bool = False, choice: Choice = FIRST
    ) -> Runner:
        """Prepare any runnable file to run; `choice` selects one of several networks."""
        if path.suffix.lower() == ".mlir" and preprocess:
            raise said_twice(path, preprocess, "transform")
        if path.suffix.lower() == ".mlir" or self.is_network(path):
            module = self.load(path) if path.suffix.lower() == ".mlir" else self.transform(path, preprocess=preprocess)
            return module_runner(module, everything, self.remark)
        return compiled_runner(self.configuration, path, preprocess, choice)

    def is_network(self, path: Path) -> bool:
        """Return whether a front end reads this file or folder."""
        return reads(self.registry, path)

    def profile(self, path: Path, *, profile: str | None = None) -> ProfileReport:
        """Report cycles, engine use, and memory of a compiled file."""
        chip, loaded = self.open(path)
        return profile_report(self.registry, path, chip, loaded, profile)

    def disassemble(self, path: Path) -> str:
        """Disassemble every command of a compiled file."""
        return self.open(path)[1].disassemble()
