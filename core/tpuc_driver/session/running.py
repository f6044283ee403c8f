"""Run modules and compiled files: match samples to inputs, and build reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api.chip import Chip, LoadedModel, TensorInfo
from tpuc.api.frontend import HostEngine, ImportOptions
from tpuc.errors import InvalidModel, UsageError
from tpuc.files import file_stem
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import real_values, types_of
from tpuc.ir import Module, TensorType
from tpuc.ir.dtypes import numpy_dtype
from tpuc.ir.fused_postprocess import FusedPostprocess, fused_postprocess
from tpuc.ir.preprocess import Preprocess, preprocess_from
from tpuc.ir.traits import NetworkInput
from tpuc.registry import Registry

from tpuc_driver.data import SampleInput, from_pixels, inputs_of, layout_of, open_samples, quantizer
from tpuc_driver.session.artifacts import Described
from tpuc_driver.session.border import NetworkModel
from tpuc_driver.session.modes import compiled_mode
from tpuc_driver.session.nonfinite import Since, since_in, since_in_file
from tpuc_driver.session.processor import host_times
from tpuc_driver.session.reports import CompileReport, ProfileReport, StageComparison
from tpuc_driver.session.values import Built

Array: TypeAlias = npt.NDArray[Any]
Remark: TypeAlias = Callable[[str], None]
NamedSamples: TypeAlias = Iterator[tuple[tuple[Path, ...], dict[str, Array]]]
"""Samples, each with its files."""


def samples_in(specs: Sequence[SampleInput], paths: Sequence[Path], registry: Registry) -> Iterable[dict[str, Array]]:
    """Yield the samples in input files; see `named_samples`."""
    return (sample for _, sample in named_samples(specs, paths, registry))


def named_samples(specs: Sequence[SampleInput], paths: Sequence[Path], registry: Registry) -> NamedSamples:
    """Yield the samples in input files with the files of each: one file with all inputs, one file per input, or any
    number of files for a single input. Raises UsageError for other numbers of files.
    """
    if len(paths) == 1 or len(specs) == 1:
        return _of_each(specs, paths, registry)
    if len(paths) != len(specs):
        raise UsageError(
            f"{len(paths)} input files for {len(specs)} inputs; give one file with all inputs, or one file for each."
        )
    return _of_all(specs, paths, registry)


def _of_each(specs: Sequence[SampleInput], paths: Sequence[Path], registry: Registry) -> NamedSamples:
    for path in paths:
        source = open_samples(specs, path, registry=registry)
        yield from zip(source.files(), source, strict=True)


def _of_all(specs: Sequence[SampleInput], paths: Sequence[Path], registry: Registry) -> NamedSamples:
    sources = [open_samples([spec], path, registry=registry) for spec, path in zip(specs, paths, strict=True)]
    for parts in zip(*sources, strict=True):
        row: dict[str, Array] = {}
        for part in parts:
            row |= part
        yield tuple(paths), row


def stacked(rows: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Stack the results of several samples along a new leading axis; results of one sample are returned unchanged."""
    if len(rows) == 1:
        return dict(rows[0])
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


@dataclass(frozen=True)
class Runner:
    """Runnable file. `run` takes one array per input, and quantizes floats if integers are stored; it returns values as
    stored, of the types `outputs`.

    `compiled_outputs` describes the outputs of a compiled file, `postprocess` the post-processing fused into the
    network, and `labels` its class names. `since` tells which op made an output NaN or infinite.
    """

    run: Callable[[Mapping[str, Array]], dict[str, Array]]
    inputs: Sequence[SampleInput]
    outputs: Mapping[str, TensorType]
    compiled_outputs: Sequence[TensorInfo] = ()
    postprocess: FusedPostprocess | None = None
    labels: Sequence[str] = ()
    since: Since = since_in_file


def module_runner(module: Module, everything: bool, remark: Remark) -> Runner:
    """Prepare a module to run in the interpreter, to return all values if `everything`."""
    interpreter = Interpreter(module)
    types, specs = types_of(module) | interpreter.outputs, inputs_of(module, remark)
    return Runner(
        lambda one: interpreter.run(as_stored(specs, one), "all" if everything else None),
        specs,
        {name: types[name] for name in (types if everything else interpreter.output_names)},
        postprocess=fused_postprocess(module),
        since=lambda one, name: since_in(module, as_stored(specs, one), name),
    )


def simulate(registry: Registry, chip: Chip, loaded: LoadedModel, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run a loaded file; hook plugins may observe or wrap the call."""
    return registry.hooks.hook.simulate(chip=chip, inputs=inputs, proceed=lambda: loaded.run(inputs))


def as_stored(specs: Sequence[SampleInput], sample: Mapping[str, Array]) -> dict[str, Array]:
    """Quantize the floats of a sample where the input stores integers."""
    stores = {one.name: one.store for one in specs}
    found = {name: (array, stores.get(name)) for name, array in sample.items()}
    return {
        name: array if store is None or array.dtype.kind != "f" else store(array)
        for name, (array, store) in found.items()
    }


def stored_inputs(specs: Sequence[SampleInput], sample: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays as they are stored in input memory, in the order of the inputs."""
    stored = as_stored(specs, sample)
    return {one.name: np.ascontiguousarray(stored[one.name], one.dtype) for one in specs if one.name in stored}


def compiled_inputs(
    loaded: LoadedModel, stated: Described, preprocess: Mapping[str, Any], remark: Remark, layout: str = ""
) -> list[SampleInput]:
    """Return the inputs of a compiled file. The file's `stated` preprocessing takes precedence over `preprocess`;
    `layout` is the user's layout of arrays.
    """
    found = [_compiled_input(info, stated.get(info.name), preprocess, remark, layout) for info in loaded.inputs]
    if not isinstance(loaded, NetworkModel):
        return found
    pairs = zip(found, loaded.border.inputs, strict=True)
    return [one if own.element is None else replace(one, meant=own.meant) for one, own in pairs]


def _compiled_input(
    info: TensorInfo, stated: Preprocess | None, preprocess: Mapping[str, Any], remark: Remark, layout: str
) -> SampleInput:
    described = dict(preprocess)
    if len(info.shape) == 4 and info.shape[3] in (1, 3, 4) and info.shape[1] not in (1, 3, 4):
        described.setdefault("channel_format", "nhwc")
    found = stated or preprocess_from(described, info.shape)
    return SampleInput(
        info.name,
        info.shape,
        numpy_dtype(TensorType(info.shape, info.element).storage),
        found,
        quantizer(info.name, info.element, remark, rounds_evenly=info.rounds_evenly),
        layout_of(info.shape, found.layout, None, layout),
        bool(stated or preprocess),
    )


def paired_inputs(
    top: Module, tpu: Module, paths: Sequence[Path], registry: Registry
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Read the first sample; returns the inputs of a TOP module and those of the TPU module lowered from it.

    If the TPU module takes image bytes (an input with another name), these are read, and TOP gets them preprocessed on
    the host.
    """
    pairs = list(zip(inputs_of(top), inputs_of(tpu), strict=True))
    sample = next(iter(samples_in([one if one.name == other.name else other for one, other in pairs], paths, registry)))
    return pair_inputs(top, tpu, sample)


def pair_inputs(top: Module, tpu: Module, sample: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Like `paired_inputs` for a sample that was already read, for the TPU module's input where the names differ."""
    types = [operation.result.tensor for operation in top.main.operations if isinstance(operation.op, NetworkInput)]
    if len(types) != len(inputs_of(top)):
        raise InvalidModel(
            f"{top.name}: {len(types)} of its {len(inputs_of(top))} inputs are taken by top.Input; transform the "
            "network again."
        )
    for_top: dict[str, Array] = {}
    for_tpu: dict[str, Array] = {}
    for one, other, type in zip(inputs_of(top), inputs_of(tpu), types, strict=True):
        if one.name != other.name:
            for_tpu[other.name] = sample[other.name]
            for_top[one.name] = from_pixels(one.preprocess, sample[other.name], other.preprocess, one.shape)
            continue
        for_top[one.name] = sample[one.name]
        value = _meant(sample[one.name], type)
        for_tpu[one.name] = other.store(value) if other.store is not None else np.asarray(value, other.dtype)
    return for_top, for_tpu


def meant_inputs(module: Module, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Dequantize a sample's quantized inputs to float32."""
    types = types_of(module)
    return {name: _meant(array, types[name]) if name in types else array for name, array in inputs.items()}


def _meant(array: Array, type: TensorType) -> Array:
    """Dequantize the input of an already quantized network."""
    return real_values(array, type).astype(np.float32) if type.is_quantized else array


def reference_values(
    engine: HostEngine, path: Path, inputs: Mapping[str, Array], batch: int | None, options: ImportOptions
) -> dict[str, Array]:
    """Run the engine and return every tensor of the network file; with `batch`, sample by sample and concatenated."""
    if batch is None:
        return engine.run_as(path, inputs, options)
    parts = [
        {name: array[index : index + 1] if array.ndim else array for name, array in inputs.items()}
        for index in range(batch)
    ]
    rows = [engine.run_as(path, part, options) for part in parts]
    return {name: np.concatenate([row[name] for row in rows]) for name, array in rows[0].items() if array.ndim}


def compile_report(
    registry: Registry,
    path: Path,
    chip: Chip,
    built: Built,
    loaded: LoadedModel,
    comparisons: Sequence[StageComparison],
    seconds: Mapping[str, float],
) -> CompileReport:
    """Report on a compiled file, with cycles in the first timing profile of its chip and the `seconds` of the
    stages.
    """
    profile = chip.profiles[0] if chip.profiles else ""
    cycles = loaded.timeline(profile).cycles if profile else None
    return CompileReport(
        str(path),
        chip.description.name,
        compiled_mode(built.module),
        sum(1 for operation in built.module.main.operations if operation.results and operation.operands),
        loaded.memory,
        cycles,
        None if cycles is None else cycles / chip.description.clock_hz * 1000,
        profile,
        tuple(comparisons),
        tuple(loaded.inputs),
        tuple(loaded.outputs),
        dict(seconds),
        built.memory_plan,
        network=file_stem(built.module.name),
        host_functions=host_times(registry, chip, loaded),
    )


def profile_report(
    registry: Registry, path: Path, chip: Chip, loaded: LoadedModel, profile: str | None
) -> ProfileReport:
    """Report cycles, engine use, and memory in a timing profile of the chip, by default the first. Raises UsageError if
    the chip does not have it.
    """
    if not chip.profiles:
        raise UsageError(f"chip '{chip.description.name}' has no timing model; measure the network on the board.")
    name = profile or chip.profiles[0]
    if name not in chip.profiles:
        raise UsageError(
            f"chip '{chip.description.name}' has no timing profile '{name}'. Its profiles: {', '.join(chip.profiles)}."
        )
    timeline = loaded.timeline(name)
    counts: dict[str, int] = {}
    for entry in timeline.entries:
        engine = entry.command.engine.name.lower()
        counts[engine] = counts.get(engine, 0) + 1
    busy = {engine.name.lower(): cycles for engine, cycles in timeline.busy.items()}
    return ProfileReport(
        str(path),
        chip.description.name,
        name,
        timeline.cycles,
        timeline.cycles / chip.description.clock_hz * 1000,
        busy,
        {engine: counts.get(engine, 0) for engine in busy},
        loaded.memory,
        chip.profile_notes.get(name, ""),
        host_times(registry, chip, loaded),
    )
