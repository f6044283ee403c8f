"""One session: a registry, a chip, a mode; networks in, modules, files and reports out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tpuc.api.chip import Chip, LoadedModel
from tpuc.api.frontend import Frontend, HostEngine, ImportOptions
from tpuc.api.planning import MemoryPlan
from tpuc.data import inputs_of, open_samples
from tpuc.errors import CalibrationError, TpucError, Unsupported, UsageError
from tpuc.files import file_stem, weights_beside, write_atomic
from tpuc.interpreter import Interpreter
from tpuc.ir import Module, TensorType
from tpuc.ir.attributes import StringAttr
from tpuc.ir.text import read_module, write_module
from tpuc.ir.text.files import WEIGHT_FILE
from tpuc.npz import write_npz
from tpuc.registry import Registry
from tpuc.schedule import PIPELINES, PassContext, PassManager, Pipelines
from tpuc.schedule.results import ARTIFACT, CALIBRATION_TABLE, MEMORY_PLAN, ResultKey
from tpuc.session.boundary import Boundary
from tpuc.session.compare import compare, tolerance_of
from tpuc.session.overflow import has_limits, seen_magnitudes
from tpuc.session.reports import CompileReport, ProfileReport, StageComparison, shown_tensor
from tpuc.session.running import (
    Runner,
    compile_report,
    compiled_inputs,
    module_runner,
    needs_calibration,
    profile_report,
    reference_values,
    samples,
    with_divisor,
)
from tpuc.session.verification import StageTest, Verification

Array: TypeAlias = npt.NDArray[Any]
Progress: TypeAlias = Callable[[Iterable[Any], str, "int | None"], Iterable[Any]]


def _silent(_: str) -> None: ...


def _plain(items: Iterable[Any], _label: str, _total: int | None = None) -> Iterable[Any]:
    return items


class Session:
    """The pipeline for one chip and mode.

    `chip` may be None for what needs none (transform, calibrate, run). `work_dir` keeps every intermediate module;
    `symmetric_divisor` replaces the chip's own for signed symmetric scales, `planner` the usual memory planner; `opt`
    is the level of planning local memory, 1 to 3.
    `memory_plan` says where everything lies in DDR after a file was built.
    """

    def __init__(
        self,
        registry: Registry | None = None,
        *,
        chip: str | None = None,
        quantize: str = "f32",
        work_dir: Path | None = None,
        symmetric_divisor: int | None = None,
        planner: str | None = None,
        opt: int | None = None,
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
        self.memory_plan: MemoryPlan | None = None
        self.pipelines = pipelines
        self.progress = progress
        self.log = log
        self.remark = remark
        self.seconds: dict[str, float] = {}
        self._chip: Chip | None = None
        if chip is not None:
            self._chip = with_divisor(self.registry.get("tpuc.chips", chip), symmetric_divisor)

    @property
    def chip(self) -> Chip:
        """The chip; raises UsageError when none was chosen."""
        if self._chip is None:
            raise UsageError("this needs a chip: add --chip NAME")
        return self._chip

    # Modules in files

    def load(self, path: Path) -> Module:
        """A `.mlir` file with its weights."""
        return read_module(path, self.registry.resolve_op)

    def save(self, module: Module, path: Path) -> None:
        """Write a `.mlir` file and, under the name it gives them, its weights beside it."""
        if module.weights.missing is None:
            module.attributes[WEIGHT_FILE] = StringAttr(weights_beside(path))
        write_module(path, module)
        self.registry.hooks.hook.module_dumped(path=path, module=module)

    def _keep(self, module: Module, suffix: str) -> None:
        if self.work_dir is not None:
            self.work_dir.mkdir(parents=True, exist_ok=True)
            self.save(module, self.work_dir / f"{file_stem(module.name)}{suffix}.mlir")

    # Stages

    def context(self, results: dict[ResultKey[Any], Any] | None = None) -> PassContext:
        """The surroundings of a pass run in this session."""
        options = {"quantize": self.mode, "planner": self.planner, "opt": self.opt}
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
    def _timed(self, stage: str) -> Generator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def _manager(self, context: PassContext) -> PassManager:
        return PassManager(context, pipelines=self.pipelines)

    def transform(
        self,
        path: Path,
        *,
        model_name: str = "",
        model_data: Path | None = None,
        input_shapes: Sequence[Sequence[int]] = (),
        batch: int | None = None,
        output_names: Sequence[str] = (),
        preprocess: Mapping[str, Any] | None = None,
        random_weights: bool = False,
    ) -> Module:
        """Import a network file and optimise it: a TOP module.

        `batch` becomes the leading extent of every input; `preprocess` says how images become inputs.
        """
        options = ImportOptions(
            model_name or path.stem,
            model_data,
            tuple(tuple(shape) for shape in input_shapes),
            tuple(output_names),
            preprocess or {},
            batch,
            random_weights,
        )
        with self._timed("import"):
            module = self._frontend(path).read(path, options, self.registry)
        self._keep(module, "_origin")
        with self._timed("optimise"):
            self._manager(self.context()).run_pipeline("top-optimize", module)
        self._keep(module, "")
        return module

    def _frontend(self, path: Path) -> Frontend:
        suffixes: list[str] = []
        for name in self.registry.names("tpuc.frontends"):
            frontend: Frontend = self.registry.get("tpuc.frontends", name)
            if path.suffix.lower() in frontend.suffixes:
                return frontend
            suffixes += frontend.suffixes
        raise Unsupported(
            f"{path}: no installed front end reads files of type '{path.suffix}'; there are front ends for "
            f"{', '.join(sorted(suffixes)) or 'nothing'}"
        )

    def verify_transform(
        self,
        path: Path,
        module: Module,
        *,
        test_input: Sequence[Path],
        batch: int | None = None,
        test_result: Path | None = None,
        excepts: Sequence[str] = (),
        tolerance: Sequence[float] = (),
    ) -> StageComparison:
        """Compare a TOP module with another engine on the network file; raises TpucError below the tolerance.

        `test_result` is an npz that receives every value of the module. With `batch`, the one that the module was made
        for, the engine runs sample by sample.
        """
        inputs = next(iter(samples(inputs_of(module), test_input)))
        values = Interpreter(module).run(inputs, "all")
        wanted = reference_values(self._engine(path), path, inputs, batch)
        result = compare(f"{path.name} and TOP", values, wanted, tolerance_of("f32", tolerance), excepts)
        if test_result is not None:
            write_npz(test_result, values)
        return result

    def _engine(self, path: Path) -> HostEngine:
        for name in self.registry.names("tpuc.engines"):
            engine: HostEngine = self.registry.get("tpuc.engines", name)
            if path.suffix.lower() in engine.suffixes:
                return engine
        raise Unsupported(f"{path}: no installed engine runs files of type '{path.suffix}'; leave out --test-input")

    def calibrate(
        self,
        module: Module,
        *,
        dataset: Path | None = None,
        data_list: Path | None = None,
        input_num: int = 0,
        method: str = "kld",
        histogram_bin_num: int = 2048,
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run sample data through a TOP module: a calibration table with `write(path)`.

        `options` are further options of the pass `calibrate`, such as `tune_num` and `workers`.
        """
        context = self.context()
        with self._timed("calibrate"):
            definition = self.registry.get("tpuc.passes", "calibrate")
            settings = {
                "dataset": str(dataset or ""),
                "data_list": str(data_list or ""),
                "input_num": input_num,
                "method": method,
                "histogram_bin_num": histogram_bin_num,
                **(options or {}),
            }
            self._manager(context).run(module, [definition(**settings)], "calibrate")
        return context.result(CALIBRATION_TABLE)

    def compile(
        self,
        path: Path,
        model: Path,
        *,
        model_data: Path | None = None,
        random_weights: bool = False,
        input_shapes: Sequence[Sequence[int]] = (),
        batch: int | None = None,
        output_names: Sequence[str] = (),
        preprocess: Mapping[str, Any] | None = None,
        dataset: Path | None = None,
        data_list: Path | None = None,
        input_num: int = 0,
        calibration_table: Path | None = None,
        calibration_method: str = "kld",
        test_input: Sequence[Path] = (),
        excepts: Sequence[str] = (),
        tolerance: Sequence[float] = (),
        boundary: Boundary | None = None,
    ) -> CompileReport:
        """The whole pipeline, from a network file to the compiled file `model`."""
        module = self.transform(
            path,
            model_data=model_data,
            input_shapes=input_shapes,
            batch=batch,
            output_names=output_names,
            preprocess=preprocess,
            random_weights=random_weights,
        )
        table: Any = calibration_table
        ranges: dict[str, float] = {}
        if has_limits(self.mode) and (dataset is not None or data_list is not None):
            ranges = seen_magnitudes(module, open_samples(inputs_of(module), dataset, data_list, input_num))
        if needs_calibration(self.mode, module) and table is None:
            if dataset is None and data_list is None:
                raise CalibrationError(
                    f"{path}: {self.mode} needs calibration: give samples with --dataset or --data-list, or a table "
                    "with --calibration-table"
                )
            table = self.calibrate(
                module,
                dataset=dataset,
                data_list=data_list,
                input_num=input_num,
                method=calibration_method,
                options={"lint": True},
            )
            if self.work_dir is not None:
                table.write(self.work_dir / f"{file_stem(module.name)}_cali_table")
        return self.deploy(
            module,
            model,
            calibration_table=table,
            test_input=test_input,
            excepts=excepts,
            tolerance=tolerance,
            boundary=boundary,
            ranges=ranges,
        )

    def deploy(
        self,
        module: Module,
        model: Path,
        *,
        calibration_table: Any = None,
        quantize_table: Path | None = None,
        test_input: Sequence[Path] = (),
        test_reference: Path | None = None,
        excepts: Sequence[str] = (),
        tolerance: Sequence[float] = (),
        boundary: Boundary | None = None,
        ranges: Mapping[str, float] | None = None,
    ) -> CompileReport:
        """Lower a TOP module and write the compiled file, once its commands are legal and its waits complete.

        With `test_input` the stages are compared on it before the file is written: TOP with TPU, TPU with simulator.
        Where `boundary` fuses the preprocessing, that input are images or the bytes that the file takes. `ranges` are
        the largest magnitudes of values, where they are known: a remark says what is too large for a float type.
        """
        final, data = self.build(module, calibration_table, quantize_table, boundary=boundary)
        loaded = self.chip.load(data, str(model))
        loaded.check()
        test = StageTest(test_input, test_reference, excepts, tolerance)
        with self._timed("verify"):
            comparisons = Verification(self, module, final, loaded, calibration_table, ranges).run(test)
        report = compile_report(model, self.chip, self.mode, final, loaded, comparisons, self.seconds)
        write_atomic(model, data)
        self.registry.hooks.hook.artifact_written(path=model, kind="model")
        return report

    def build(
        self,
        module: Module,
        calibration_table: Any = None,
        quantize_table: Path | None = None,
        *,
        boundary: Boundary | None = None,
        after_lowering: Callable[[Module], None] | None = None,
    ) -> tuple[Module, bytes]:
        """The addressed TPU module and the bytes of the compiled file. The TOP module stays as it is.

        `after_lowering` may change the TPU module before memory is planned.
        """
        module = module.clone()
        context = self.context(None if boundary is None else boundary.wishes(len(module.main.outputs)))
        manager = self._manager(context)
        if needs_calibration(self.mode, module):
            if calibration_table is None:
                raise CalibrationError(
                    f"{module.name}: {self.mode} needs a calibration table; make one with `tpuc calibrate` and give it "
                    "with --calibration-table"
                )
            with self._timed("calibrate"):
                context.leave(CALIBRATION_TABLE, calibration_table)
                manager.run_pipeline("calibrate", module)
        tag = f"_{self.chip.description.name}_{self.mode}"
        with self._timed("lower"):
            if quantize_table is not None:
                definition = self.registry.get("tpuc.passes", "import-quantise-table")
                manager.run(module, [definition(table=str(quantize_table))], "lower")
            manager.run_pipeline("lower", module)
            if boundary is not None:
                manager.run(module, boundary.passes(self.registry), "lower")
            manager.run_pipeline("tpu-optimize", module)
        if after_lowering is not None:
            after_lowering(module)
        self._keep(module, f"{tag}_tpu")
        with self._timed("finalize"):
            manager.run_pipeline("finalize", module)
        self._keep(module, f"{tag}_final")
        with self._timed("generate"):
            manager.run(module, ["generate-code"], "generate")
        self.memory_plan = context.find(MEMORY_PLAN)
        return module, context.result(ARTIFACT)

    # Running

    def simulate(self, chip: Chip, loaded: LoadedModel, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run a loaded file; hook plugins may observe or wrap it."""
        hook = self.registry.hooks.hook
        return hook.simulate(chip=chip, inputs=inputs, proceed=lambda: loaded.run(inputs))

    def open(self, path: Path) -> tuple[Chip, LoadedModel]:
        """A compiled file and the installed chip that it is for; raises Unsupported when there is none."""
        chips: list[Chip] = []
        for name in self.registry.names("tpuc.chips"):
            try:
                chips.append(self.registry.get("tpuc.chips", name))
            except TpucError as error:
                self.log(f"{error}")
        candidates = [chip for chip in chips if chip.description.suffix == path.suffix]
        if not candidates:
            suffixes = sorted({chip.description.suffix for chip in chips})
            raise Unsupported(
                f"{path}: no installed chip reads files of type '{path.suffix}'; there are {', '.join(suffixes)}"
            )
        data = path.read_bytes()
        for chip in candidates[:-1]:
            try:
                return chip, chip.load(data, str(path))
            except Unsupported as error:  # the file says that it is for another chip
                self.log(f"{error}")
        return candidates[-1], candidates[-1].load(data, str(path))

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
        runner = self.runner(path, preprocess or {}, everything=dump_all_tensors, inputs=inputs)
        for info in runner.compiled_outputs:
            if (text := shown_tensor(info)) != shown_tensor(info, plain=True):
                self.remark(f"output {text}")
        rows = [runner.run(sample) for sample in self.progress(samples(runner.inputs, inputs), "running", None)]
        if len(rows) == 1:
            return rows[0]
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    def runner(
        self, path: Path, preprocess: Mapping[str, Any], *, everything: bool = False, inputs: Sequence[Path] = ()
    ) -> Runner:
        """Any runnable file, ready to run. `inputs` are files that it will be given."""
        if path.suffix == ".mlir" and preprocess:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(preprocess))
            raise UsageError(
                f"{path} says itself how images become its inputs. Leave out {options}, or transform the network again "
                "with other ones."
            )
        if path.suffix == ".mlir" or self._is_network(path):
            module = self.load(path) if path.suffix == ".mlir" else self.transform(path, preprocess=preprocess)
            return module_runner(module, everything, self.remark)
        chip, loaded = self.open(path)
        specs = compiled_inputs(loaded, inputs, preprocess, self.remark, path)
        types = {info.name: TensorType(info.shape, info.element) for info in loaded.outputs}
        return Runner(lambda one: self.simulate(chip, loaded, one), specs, types, tuple(loaded.outputs))

    def _is_network(self, path: Path) -> bool:
        return any(
            path.suffix.lower() in self.registry.get("tpuc.frontends", name).suffixes
            for name in self.registry.names("tpuc.frontends")
        )

    def profile(self, path: Path, *, profile: str | None = None) -> ProfileReport:
        """Cycles, engine use and memory of a compiled file."""
        chip, loaded = self.open(path)
        return profile_report(path, chip, loaded, profile)

    def disassemble(self, path: Path) -> str:
        """Every command of a compiled file as text."""
        return self.open(path)[1].disassemble()
