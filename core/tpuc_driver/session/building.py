"""Compile a TOP module: lower, plan, generate code, check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tpuc.api.chip import FLOAT_MODES, LoadedModel
from tpuc.api.function import FunctionChip
from tpuc.api.planning import MemoryPlan
from tpuc.errors import CalibrationError, UsageError
from tpuc.files import file_stem
from tpuc.ir import Module
from tpuc.ir.fused_postprocess import fused_postprocess, network_alone
from tpuc.schedule import PassManager
from tpuc.schedule.results import ARTIFACT, CALIBRATION_TABLE, CONSTANTS, MEMORY_PLAN, QUANTISE_TABLE, ConstantImage

from tpuc_driver.data import Labels, SampleSource, check_channels, inputs_of, open_samples, sets_of
from tpuc_driver.session.artifacts import Description, described_inputs, write_artifact
from tpuc_driver.session.border import Border, as_network, border_of, name_outputs
from tpuc_driver.session.boundary import Boundary
from tpuc_driver.session.calibrated_on import calibrated_on
from tpuc_driver.session.checking import fitted_labels, self_check
from tpuc_driver.session.overflow import has_limits, seen_magnitudes
from tpuc_driver.session.promise import meet_accuracy
from tpuc_driver.session.reports import CompileReport, SelfCheck
from tpuc_driver.session.results import CHECK_SAMPLES, SEEN_SAMPLES
from tpuc_driver.session.running import compile_report, compiled_mode, needs_calibration, takes_calibration
from tpuc_driver.session.settings import (
    CalibrationSettings,
    CompileSettings,
    DeploySettings,
    NetworkSettings,
    SampleSettings,
    chosen,
)
from tpuc_driver.session.verification import StageTest, Verification

if TYPE_CHECKING:
    from tpuc_driver.session.session import Session


Shapes: TypeAlias = Sequence[Sequence[int]]
_OF_SAMPLES = ("dataset", "data_list", "input_num", "min_agreement", "test_input", "excepts", "tolerance")
"""Settings about samples, which have the first of several sets of shapes."""


class Built(NamedTuple):
    """The addressed TPU module, the bytes of the compiled file, and where everything lies in DDR."""

    module: Module
    data: bytes
    memory_plan: MemoryPlan | None


@dataclass
class SharedConstants:
    """What compilations of one network, for several shapes, have of constants: each adds its own."""

    image: ConstantImage = field(default_factory=ConstantImage)


@dataclass(frozen=True)
class Recipe:
    """What a build is told besides the module. `quantize_table` is a file, or modes by the names of ops.
    `after_lowering` may change the TPU module before memory is planned.
    """

    calibration_table: Any = None
    quantize_table: Path | Mapping[str, str] | None = None
    boundary: Boundary | None = None
    after_lowering: Callable[[Module], None] | None = None
    keep_in: Path | None = None
    constants: SharedConstants | None = None


class Calibrated(NamedTuple):
    """A table of ranges with `write(path)`, and the samples for its check: held out, or seen by tuning."""

    table: Any
    held_out: SampleSource | None
    seen: SampleSource | None = None


def calibrate(session: Session, module: Module, settings: CalibrationSettings) -> Calibrated:
    """Ranges by the pass `calibrate`."""
    context = session.context()
    definition = session.registry.get("tpuc.passes", "calibrate")
    options = {
        "dataset": tuple(one.text() for one in sets_of(settings.get("dataset"))),
        "data_list": str(settings.get("data_list") or ""),
        "input_num": settings.get("input_num", 0),
        "method": settings.get("method", "kld"),
        "histogram_bin_num": settings.get("histogram_bin_num", 2048),
        **(settings.get("options") or {}),
    }
    with session.timed("calibrate"):
        session.manager(context).run(network_alone(module), [definition(**options)], "calibrate")
    return Calibrated(context.result(CALIBRATION_TABLE), context.find(CHECK_SAMPLES), context.find(SEEN_SAMPLES))


def calibrate_and_check(
    session: Session, module: Module, settings: CalibrationSettings
) -> tuple[Any, SelfCheck | None]:
    """A table, and what a network that is quantised by it decides; see `self_check`."""
    options = {**(settings.get("options") or {}), "hold_out": True}
    table, held_out, seen = calibrate(session, module, {**settings, "options": options})
    samples = held_out or seen or _all_samples(session, module, settings)
    least = settings.get("min_agreement") or 0.0
    return table, self_check(session, network_alone(module), None, table, samples, tuned=held_out is None, least=least)


def _all_samples(session: Session, module: Module, settings: SampleSettings) -> SampleSource:
    source = SampleSettings(**chosen(settings, SampleSettings))
    return open_samples(inputs_of(module), **source, registry=session.registry)


def prepared(session: Session, path: Path, module: Module, settings: CompileSettings) -> DeploySettings:
    """What deploying a network that was just imported takes: ranges of its values, found now where they are needed."""
    deploy = DeploySettings(**chosen(settings, DeploySettings))
    fitted_labels(module, settings.get("labels") or Labels())
    source = SampleSettings(**chosen(settings, SampleSettings))
    has_samples = source.get("dataset") is not None or source.get("data_list") is not None
    if settings.get("min_agreement") and not has_samples:
        raise UsageError("--min-agreement needs samples to compare predictions on; give --dataset or --data-list.")
    mode = session.mode_for(module)
    is_compared = settings.get("min_agreement") or settings.get("min_accuracy")
    if has_samples and mode in FLOAT_MODES and not has_limits(mode) and not is_compared:
        session.remark(f"{mode} needs no calibration: the samples are ignored; --quantize int8 uses them")
    if has_limits(mode) and has_samples:
        deploy["ranges"] = seen_magnitudes(module, _all_samples(session, module, source))
    if has_samples and (settings.get("min_agreement") or takes_calibration(mode, module)):
        deploy["check_samples"] = _all_samples(session, module, source)
    needed = needs_calibration(mode, module)
    if settings.get("min_accuracy") is not None:
        if settings.get("quantize_table") is not None:
            raise UsageError("--min-accuracy chooses the mode of each op; leave out --quantize-table.")
        found = meet_accuracy(session, network_alone(module), settings)
        deploy |= DeploySettings(calibration_table=found.table, quantize_table=found.modes, accuracy=found.report)
        if found.held_out is not None:
            deploy |= DeploySettings(check_samples=found.held_out, tuned=False)
    elif deploy.get("calibration_table") is None and (needed or (has_samples and takes_calibration(mode, module))):
        if not has_samples:
            raise CalibrationError(
                f"{path}: {mode} needs calibration: give samples with --dataset or --data-list, or a table "
                "with --calibration-table"
            )
        method = settings.get("calibration_method", "kld")
        options = {"lint": True, "hold_out": True}
        table, held_out, _ = calibrate(session, module, {**source, "method": method, "options": options})
        deploy["tuned"] = held_out is None
        if held_out is not None:
            deploy["check_samples"] = held_out
        if session.work_dir is not None:
            table.write(session.work_dir / f"{file_stem(module.name)}_cali_table")
        deploy["calibration_table"] = table
    return deploy


class Finished(NamedTuple):
    """What was built and checked, loaded in the simulator, what is to tell of it, and what the file says of itself."""

    built: Built
    loaded: LoadedModel
    report: CompileReport
    description: Description


def deploy(session: Session, module: Module, model: Path, settings: DeploySettings) -> CompileReport:
    """Build, check, compare stages on a test input, and only then write."""
    finished = finish(session, module, model, settings)
    write(session, finished, model)
    return finished.report


def compile_shapes(
    session: Session,
    path: Path,
    model: Path,
    settings: CompileSettings,
    shapes: Sequence[Shapes],
    batches: Sequence[int | None],
) -> list[CompileReport]:
    """One file for several sets of shapes of a network's inputs, each with all `batches`, and its weights once; a
    report for each.

    The first set is calibrated and checked, the others are quantised by the same table.
    """
    if settings.get("min_accuracy") is not None:
        raise UsageError("--min-accuracy searches for one set of shapes; give a single --input-shapes and --batch.")
    others: dict[str, Any] = {name: value for name, value in settings.items() if name not in _OF_SAMPLES}
    constants, steps = SharedConstants(), list[tuple[Module, DeploySettings]]()
    table: Any = settings.get("calibration_table")
    for number, (one, batch) in enumerate(product(shapes, batches)):
        given: dict[str, Any] = {**(others if number else settings)}
        given |= {"input_shapes": one, "batch": batch, "calibration_table": table}
        said = CompileSettings(**given)
        module = session.transform(path, **NetworkSettings(**chosen(said, NetworkSettings)))
        check_channels(inputs_of(module))
        deploy = prepared(session, path, module, said)
        table, deploy["constants"] = deploy.get("calibration_table"), constants
        steps.append((module, deploy))
    for module, deploy in steps:  # all have to know all constants: activations lie behind them
        build(session, module, _recipe(deploy))
    finished = [finish(session, module, model, deploy) for module, deploy in steps]
    data = session.chip.combine([one.built.data for one in finished])
    networks = session.chip.networks
    said_of = {networks(one.built.data)[0].shapes: one.description for one in finished}
    write_artifact(session.chip, model, data, *(said_of[entry.shapes] for entry in networks(data)))
    session.registry.hooks.hook.artifact_written(path=model, kind="model")
    return [one.report for one in finished]


def write(session: Session, finished: Finished, model: Path) -> None:
    """The compiled file, or folder, of what was built."""
    write_artifact(session.chip, model, finished.built.data, finished.description)
    session.registry.hooks.hook.artifact_written(path=model, kind="model")


def _described(built: Built, labels: Sequence[str], border: Border) -> Description:
    layers = () if built.memory_plan is None else built.memory_plan.layers
    inputs = described_inputs(inputs_of(built.module))
    post, seen = fused_postprocess(built.module), calibrated_on(built.module)
    return Description(inputs, layers, post, tuple(labels), border, seen)


def finish(session: Session, module: Module, model: Path, settings: DeploySettings) -> Finished:
    """Build, check and compare; reports and errors call it `model`, and nothing is written."""
    table, boundary = settings.get("calibration_table"), settings.get("boundary")
    if boundary is not None and boundary.aligned_input and settings.get("test_input"):
        raise UsageError(
            "--aligned-input takes camera frames, which --test-input cannot be; compile once without --aligned-input "
            "to compare."
        )
    labels = fitted_labels(module, settings.get("labels") or Labels())
    built = build(session, module, _recipe(settings))
    loaded = session.chip.load(built.data, str(model))
    loaded.check()
    test = StageTest(
        settings.get("test_input", ()),
        settings.get("test_reference"),
        settings.get("excepts", ()),
        settings.get("tolerance", ()),
    )
    with session.timed("verify"):
        verification = Verification(session, module, built.module, loaded, table, settings.get("ranges"))
        comparisons = verification.run(test)
    samples, check = settings.get("check_samples"), None
    if samples is not None:
        tuned, least = settings.get("tuned"), settings.get("min_agreement") or 0.0
        alone = network_alone(module)
        lowered = built.module if alone is module else None
        check = self_check(session, alone, lowered, table, samples, tuned=tuned, least=least)
    border = border_of(module, built.module, loaded)
    loaded = as_network(loaded, border)
    report = compile_report(model, session, built, loaded, comparisons)
    report = replace(report, self_check=check, accuracy=settings.get("accuracy"))
    return Finished(built, loaded, report, _described(built, labels, border))


def _recipe(settings: DeploySettings) -> Recipe:
    return Recipe(
        settings.get("calibration_table"),
        settings.get("quantize_table"),
        settings.get("boundary"),
        keep_in=settings.get("keep_in"),
        constants=settings.get("constants"),
    )


def build(session: Session, module: Module, recipe: Recipe) -> Built:
    """Lower, plan and generate; the TOP module stays as it is."""
    module, boundary, mode = module.clone(), recipe.boundary, session.mode_for(module)
    context = session.context(None if boundary is None else boundary.wishes(len(module.main.outputs)), mode)
    manager = session.manager(context)
    needed = needs_calibration(mode, module)
    if needed or (recipe.calibration_table is not None and takes_calibration(mode, module)):
        if recipe.calibration_table is None:
            raise CalibrationError(
                f"{module.name}: {mode} needs a calibration table; make one with `tpuc calibrate` and give it "
                "with --calibration-table"
            )
        with session.timed("calibrate"):
            context.leave(CALIBRATION_TABLE, recipe.calibration_table)
            manager.run_pipeline("calibrate", module)
    if isinstance(recipe.quantize_table, Mapping):
        context.leave(QUANTISE_TABLE, recipe.quantize_table)
    with session.timed("lower"):
        _lower(session, manager, module, recipe)
    tag = f"_{session.chip.description.name}_{_mode_tag(compiled_mode(module))}"
    if recipe.after_lowering is not None:
        recipe.after_lowering(module)
    session.keep(module, f"{tag}_tpu", recipe.keep_in)
    if recipe.constants is not None:
        context.leave(CONSTANTS, recipe.constants.image)
    with session.timed("finalize"):
        manager.run_pipeline("finalize", module)
    session.keep(module, f"{tag}_final")
    with session.timed("generate"):
        manager.run(module, ["generate-code"], "generate")
    if recipe.constants is not None:
        recipe.constants.image = context.find(CONSTANTS, recipe.constants.image)
    return Built(module, context.result(ARTIFACT), context.find(MEMORY_PLAN))


def _mode_tag(mode: str) -> str:
    """A mode in names of files, as TPU-MLIR writes it: `int8_sym`, `int8_asym`, `f16`."""
    symmetric = mode.startswith("int") and not mode.endswith("-asym")
    return f"{mode}_sym" if symmetric else mode.replace("-", "_")


def _lower(session: Session, manager: PassManager, module: Module, recipe: Recipe) -> None:
    if isinstance(recipe.quantize_table, Path):
        definition = session.registry.get("tpuc.passes", "import-quantise-table")
        manager.run(module, [definition(table=str(recipe.quantize_table))], "lower")
    names = [value.name for value in module.main.outputs]
    manager.run_pipeline("lower", module)
    if isinstance(session.chip, FunctionChip):  # nobody but its users reads what it is compiled to
        name_outputs(module, names)
    if recipe.boundary is not None:
        manager.run(module, recipe.boundary.passes(session.registry), "lower")
    manager.run_pipeline("tpu-optimize", module)
