"""Run the stages of a compilation, from a network file to a compiled file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from tpuc.api.chip import FLOAT_MODES, LoadedModel
from tpuc.api.frontend import NetworkPart
from tpuc.errors import CalibrationError, Unsupported, UsageError
from tpuc.files import file_stem
from tpuc.ir import Module
from tpuc.ir.fused_postprocess import fused_postprocess, network_alone

from tpuc_driver.api.board import Board, shown_bytes
from tpuc_driver.data import Labels, SampleSource, check_channels, inputs_of, open_samples
from tpuc_driver.session.artifacts import Description, described_inputs, write_artifact
from tpuc_driver.session.border import Border, as_network, border_of
from tpuc_driver.session.calibrated_on import calibrated_on
from tpuc_driver.session.checking import fitted_labels, self_check
from tpuc_driver.session.configuration import STAGES, Configuration
from tpuc_driver.session.hints import hint_at_fusing, remark_on_table
from tpuc_driver.session.importing import read_companions, read_parts
from tpuc_driver.session.modes import compiled_mode, needs_calibration, takes_calibration
from tpuc_driver.session.overflow import has_limits, seen_magnitudes
from tpuc_driver.session.parts import PartsCompiler
from tpuc_driver.session.promise import meet_accuracy
from tpuc_driver.session.reports import CompileReport, SelfCheck
from tpuc_driver.session.running import compile_report
from tpuc_driver.session.settings import (
    CalibrationSettings,
    CompileSettings,
    DeploySettings,
    NetworkSettings,
    SampleSettings,
    chosen,
)
from tpuc_driver.session.stages.calibrate import calibrate
from tpuc_driver.session.stages.emit import emit
from tpuc_driver.session.stages.import_model import import_model
from tpuc_driver.session.stages.lower import lower
from tpuc_driver.session.stages.plan import plan
from tpuc_driver.session.values import Built, Finished, Recipe, Shapes, SharedConstants
from tpuc_driver.session.verification import StageTest, Verification
from tpuc_driver.session.weights import weight_choice

_OF_SAMPLES = ("dataset", "data_list", "input_num", "min_agreement", "test_input", "excepts", "tolerance")
"""Settings about samples, which apply to the first of several sets of shapes only."""


def transform(configuration: Configuration, path: Path, settings: NetworkSettings) -> Module:
    """Import a network file as an optimized TOP module, and keep it in `work_dir` if set."""
    module = import_model(configuration, path, settings)
    configuration.keep(module, "")
    return module


def compile_network(configuration: Configuration, path: Path, model: Path, settings: CompileSettings) -> CompileReport:
    """Compile a network file to the file `model`."""
    configuration.clock.expect(*_stages(configuration, settings))
    settings = CompileSettings(**weight_choice(configuration, settings))
    parts = read_parts(configuration.registry, path, NetworkSettings(**chosen(settings, NetworkSettings)))
    if parts:
        return _compile_parts(configuration, path, model, settings, parts)
    module = transform(configuration, path, NetworkSettings(**chosen(settings, NetworkSettings)))
    check_channels(inputs_of(module))
    return deploy(configuration, module, model, prepared(configuration, path, module, settings))


def _compile_parts(
    configuration: Configuration, path: Path, model: Path, settings: CompileSettings, parts: Iterable[NetworkPart]
) -> CompileReport:
    def optimize(module: Module) -> None:
        configuration.keep_origin(module, None)
        with configuration.clock.timed("optimize"):
            configuration.manager(configuration.context()).run_pipeline("top-optimize", module)
        configuration.keep(module, "")

    return PartsCompiler(
        configuration,
        model,
        settings,
        optimize,
        lambda module, step: build(configuration, module, _recipe(step)),
        lambda module, step: finish(configuration, module, model, step),
    ).run(parts, read_companions(configuration.registry, path))


def _stages(configuration: Configuration, settings: CompileSettings) -> list[str]:
    """Return the stages that a compilation will have, as far as known before the network is read."""
    has_samples = bool(settings.get("dataset") or settings.get("data_list"))
    has_ranges = configuration.mode not in FLOAT_MODES and (has_samples or settings.get("calibration_table"))
    left_out = set[str]() if has_ranges else {"calibrate"}
    if not (has_samples and has_ranges):
        left_out.add("self-check")
    return [stage for stage in STAGES if stage not in left_out]


def calibrate_and_check(
    configuration: Configuration, module: Module, settings: CalibrationSettings
) -> tuple[Any, SelfCheck | None]:
    """Calibrate a module; returns the table and the result of `self_check` with it."""
    options = {**(settings.get("options") or {}), "hold_out": True}
    table, held_out, seen = calibrate(configuration, module, {**settings, "options": options})
    samples = held_out or seen or _all_samples(configuration, module, settings)
    least = settings.get("min_agreement") or 0.0
    return table, self_check(
        configuration, network_alone(module), None, table, samples, tuned=held_out is None, least=least
    )


def _all_samples(configuration: Configuration, module: Module, settings: SampleSettings) -> SampleSource:
    source = SampleSettings(**chosen(settings, SampleSettings))
    return open_samples(inputs_of(module), **source, registry=configuration.registry)


def prepared(configuration: Configuration, path: Path, module: Module, settings: CompileSettings) -> DeploySettings:
    """Return the settings to deploy an imported network, calibrating it first where needed. Raises UsageError or
    CalibrationError if samples are missing.
    """
    deploy = DeploySettings(**chosen(settings, DeploySettings))
    fitted_labels(module, settings.get("labels") or Labels())
    source = SampleSettings(**chosen(settings, SampleSettings))
    has_samples = source.get("dataset") is not None or source.get("data_list") is not None
    if settings.get("min_agreement") and not has_samples:
        raise UsageError("--min-agreement needs samples to compare predictions on; give --dataset or --data-list.")
    mode = configuration.mode_for(module)
    is_compared = settings.get("min_agreement") or settings.get("min_accuracy")
    if has_samples and mode in FLOAT_MODES and not has_limits(mode) and not is_compared:
        configuration.remark(f"{mode} needs no calibration: the samples are ignored; --quantize int8 uses them")
    if has_limits(mode) and has_samples:
        deploy["ranges"] = seen_magnitudes(module, _all_samples(configuration, module, source))
    if has_samples and (settings.get("min_agreement") or takes_calibration(mode, module)):
        deploy["check_samples"] = _all_samples(configuration, module, source)
    needed = needs_calibration(mode, module)
    if settings.get("min_accuracy") is not None:
        deploy |= _searched(configuration, module, settings)
    elif deploy.get("calibration_table") is None and (needed or (has_samples and takes_calibration(mode, module))):
        if not has_samples:
            raise CalibrationError(
                f"{path}: {mode} needs calibration: give samples with --dataset or --data-list, or a table "
                "with --calibration-table"
            )
        method = settings.get("calibration_method", "kld")
        options = {"lint": True, "hold_out": True, "force": bool(settings.get("force"))}
        table, held_out, _ = calibrate(configuration, module, {**source, "method": method, "options": options})
        deploy["tuned"] = held_out is None
        if held_out is not None:
            deploy["check_samples"] = held_out
        if configuration.work_dir is not None:
            table.write(configuration.work_dir / f"{file_stem(module.name)}_cali_table")
        deploy["calibration_table"] = table
    return deploy


def _searched(configuration: Configuration, module: Module, settings: CompileSettings) -> DeploySettings:
    """Search for the cheapest network that meets the required accuracy; returns its tables as settings."""
    if settings.get("quantize_table") is not None:
        raise UsageError("--min-accuracy chooses the mode of each op; leave out --quantize-table.")

    def compiled(module: Module, table: Any, modes: Mapping[str, str]) -> Built:
        return build(configuration, module, Recipe(table, modes))

    found = meet_accuracy(configuration, network_alone(module), settings, compiled)
    tables = DeploySettings(calibration_table=found.table, quantize_table=found.modes, accuracy=found.report)
    if found.held_out is not None:
        tables |= DeploySettings(check_samples=found.held_out, tuned=False)
    return tables


def deploy(configuration: Configuration, module: Module, model: Path, settings: DeploySettings) -> CompileReport:
    """Build a compiled file, check it, compare the stages on a test input, and only then write it."""
    finished = finish(configuration, module, model, settings)
    write(configuration, finished, model)
    return finished.report


def compile_shapes(
    configuration: Configuration,
    path: Path,
    model: Path,
    settings: CompileSettings,
    shapes: Sequence[Shapes],
    batches: Sequence[int | None],
) -> list[CompileReport]:
    """Compile a network for several sets of input shapes, each with all `batches`, to one file that shares the weights;
    returns one report each.

    Only the first set is calibrated and checked; the others use its calibration table.
    """
    if settings.get("min_accuracy") is not None:
        raise UsageError("--min-accuracy searches for one set of shapes; give a single --input-shapes and --batch.")
    others: dict[str, Any] = {name: value for name, value in settings.items() if name not in _OF_SAMPLES}
    constants, steps = SharedConstants(), list[tuple[Module, DeploySettings]]()
    table: Any = settings.get("calibration_table")
    for number, (one, batch) in enumerate(product(shapes, batches)):
        given: dict[str, Any] = {**(others if number else settings)}
        given |= {"input_shapes": one, "batch": batch, "calibration_table": table}
        parsed = CompileSettings(**given)
        module = transform(configuration, path, NetworkSettings(**chosen(parsed, NetworkSettings)))
        check_channels(inputs_of(module))
        step = prepared(configuration, path, module, parsed)
        table, step["constants"] = step.get("calibration_table"), constants
        steps.append((module, step))
    for module, step in steps:  # all have to know all constants: activations lie behind them
        build(configuration, module, _recipe(step))
    finished = [finish(configuration, module, model, step) for module, step in steps]
    _remark_on_table(configuration, *steps[0], finished[0].report)
    data = configuration.chip.combine([one.built.data for one in finished])
    networks = configuration.chip.networks
    said_of = {networks(one.built.data)[0].shapes: one.description for one in finished}
    write_artifact(configuration.chip, model, data, *(said_of[entry.shapes] for entry in networks(data)))
    configuration.registry.hooks.hook.artifact_written(path=model, kind="model")
    return [one.report for one in finished]


def write(configuration: Configuration, finished: Finished, model: Path) -> None:
    """Write the compiled file or folder."""
    write_artifact(configuration.chip, model, finished.built.data, finished.description)
    configuration.registry.hooks.hook.artifact_written(path=model, kind="model")


def _described(built: Built, labels: Sequence[str], border: Border) -> Description:
    layers = () if built.memory_plan is None else built.memory_plan.layers
    inputs = described_inputs(inputs_of(built.module))
    post, seen = fused_postprocess(built.module), calibrated_on(built.module)
    return Description(inputs, layers, post, tuple(labels), border, seen)


def finish(configuration: Configuration, module: Module, model: Path, settings: DeploySettings) -> Finished:
    """Build, check, and compare without writing; reports and errors name the file `model`."""
    table, boundary = settings.get("calibration_table"), settings.get("boundary")
    if boundary is not None and boundary.aligned_input and settings.get("test_input"):
        raise UsageError(
            "--test-input cannot be compared with --aligned-input, which takes camera frames; compile once without "
            "--aligned-input to compare."
        )
    labels = fitted_labels(module, settings.get("labels") or Labels())
    built = build(configuration, module, _recipe(settings))
    loaded = configuration.chip.load(built.data, str(model))
    loaded.check()
    if (board := settings.get("board")) is not None:
        _check_board(board, model, loaded)
    test = StageTest(
        settings.get("test_input", ()),
        settings.get("test_reference"),
        settings.get("excepts", ()),
        settings.get("tolerance", ()),
    )
    with configuration.clock.timed("verify"):
        verification = Verification(configuration, module, built.module, loaded, table, settings.get("ranges"))
        comparisons = verification.run(test)
    samples, check = settings.get("check_samples"), None
    if samples is not None:
        tuned, least = settings.get("tuned"), settings.get("min_agreement") or 0.0
        alone = network_alone(module)
        lowered = built.module if alone is module else None
        check = self_check(configuration, alone, lowered, table, samples, tuned=tuned, least=least)
    if hint := hint_at_fusing(configuration, module, _recipe(settings), built, loaded, build):
        configuration.remark(hint)
    border = border_of(module, built.module, loaded)
    loaded = as_network(loaded, border)
    report = compile_report(
        configuration.registry, model, configuration.chip, built, loaded, comparisons, configuration.clock.seconds
    )
    if settings.get("constants") is None and settings.get("accuracy") is None:  # a search reports the cost itself
        _remark_on_table(configuration, module, settings, report)
    report = replace(report, self_check=check, accuracy=settings.get("accuracy"))
    return Finished(built, loaded, report, _described(built, labels, border))


def _remark_on_table(
    configuration: Configuration, module: Module, settings: DeploySettings, report: CompileReport
) -> None:
    if remark := remark_on_table(configuration, module, _recipe(settings), report.cycles, build):
        configuration.remark(remark)


def _check_board(board: Board, model: Path, loaded: LoadedModel) -> None:
    """Check that the file fits the board's memory; raises Unsupported if not."""
    reason = board.refuses_size(sum(loaded.device_bytes.values()))
    if reason is not None:
        raise Unsupported(
            f"{model}: {reason} ({shown_bytes(loaded.device_bytes)}); take a smaller network or fewer bits, or reserve "
            f"more: {board.note}"
        )


def _recipe(settings: DeploySettings) -> Recipe:
    return Recipe(
        settings.get("calibration_table"),
        settings.get("quantize_table"),
        settings.get("boundary"),
        keep_in=settings.get("keep_in"),
        constants=settings.get("constants"),
    )


def build(configuration: Configuration, module: Module, recipe: Recipe) -> Built:
    """Lower, plan, and emit; the TOP module is not changed."""
    lowered = lower(configuration, module, recipe)
    tag = f"_{configuration.chip.description.name}_{_mode_tag(compiled_mode(lowered.module))}"
    if recipe.after_lowering is not None:
        recipe.after_lowering(lowered.module)
    configuration.keep(lowered.module, f"{tag}_tpu", recipe.keep_in)
    planned = plan(configuration, lowered, recipe.constants)
    configuration.keep(planned.module, f"{tag}_final")
    built, constants = emit(configuration, planned)
    if recipe.constants is not None and constants is not None:
        recipe.constants.image = constants
    return built


def _mode_tag(mode: str) -> str:
    """Return a mode as in file names of TPU-MLIR: `int8_sym`, `int8_asym`, `f16`."""
    symmetric = mode.startswith("int") and not mode.endswith("-asym")
    return f"{mode}_sym" if symmetric else mode.replace("-", "_")
