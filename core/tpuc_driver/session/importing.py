"""Import a network file as a TOP module, and compare the module with another engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Unpack

from tpuc.api.frontend import Frontend, HostEngine, ImportOptions, NetworkPart
from tpuc.errors import PluginError, Unsupported, UsageError
from tpuc.files import file_stem, utf8, write_atomic
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc.npz import write_npz
from tpuc.registry import Registry, left_out, tell_left_out

from tpuc_driver.data import as_type, inputs_of
from tpuc_driver.session.compare import NEAR_ZERO, compare, meanings, steps_of, tolerance_of
from tpuc_driver.session.opening import kind_of
from tpuc_driver.session.reports import StageComparison
from tpuc_driver.session.running import meant_inputs, reference_values, samples_in
from tpuc_driver.session.settings import NetworkSettings, TransformTestSettings

SPECIALIZING = {"input_names": "--input-names", "dims": "--dim", "fixed_inputs": "--fix-input"}
"""Options that only some front ends support, by the fields of ImportOptions."""


def read_network(registry: Registry, path: Path, settings: NetworkSettings) -> Module:
    """Read a network as it is in the file; raises Unsupported if no installed front end reads it, or if the front end
    lacks a requested option.
    """
    frontend, file, options = _reading(registry, path, settings)
    return frontend.read(file, options, registry)


def read_parts(registry: Registry, path: Path, settings: NetworkSettings) -> Iterable[NetworkPart]:
    """Read the networks that the model consists of; empty where it is one network. Raises like `read_network`."""
    frontend, file, options = _reading(registry, path, settings)
    return frontend.parts(file, options, registry)


def read_companions(registry: Registry, path: Path) -> Mapping[str, bytes]:
    """Read the files that belong beside a compiled model of several networks, by name."""
    frontend, file = _frontend(registry, path)
    found = frontend.companions(file).items()
    return {name: one if isinstance(one, bytes) else one.read_bytes() for name, one in found}


def _reading(registry: Registry, path: Path, settings: NetworkSettings) -> tuple[Frontend, Path, ImportOptions]:
    """Find the front end, the file that it reads, and its options; raises Unsupported for options that it lacks."""
    (frontend, file), options = _frontend(registry, path), _options(path, settings)
    for field, option in SPECIALIZING.items():
        if getattr(options, field) and field not in frontend.specializes_by:
            raise Unsupported(
                f"{path}: front end '{frontend.name}' does not support {option}; export the network to ONNX to use it."
            )
    if options.weights is not None and "weights" not in frontend.specializes_by:
        raise Unsupported(
            f"{path}: weights alone are quantized in language models only; give a mode such as int8 or f16."
        )
    return frontend, file, options


def keep_simplified(registry: Registry, path: Path, settings: NetworkSettings, folder: Path) -> None:
    """Write the network as simplified by its front end, if the format has such a form."""
    (frontend, file), options = _frontend(registry, path), _options(path, settings)
    for ending, content in frontend.simplified(file, options).items():
        write_atomic(folder / f"{file_stem(options.model_name)}{ending}", content)


def _options(path: Path, settings: NetworkSettings | TransformTestSettings) -> ImportOptions:
    return ImportOptions(
        model_name=utf8(settings.get("model_name") or path.stem).decode("utf-8"),
        model_data=settings.get("model_data"),
        input_shapes=tuple(tuple(shape) for shape in settings.get("input_shapes", ())),
        output_names=tuple(settings.get("output_names", ())),
        preprocess=settings.get("preprocess") or {},
        batch=settings.get("batch"),
        random_weights=settings.get("random_weights", False),
        input_names=tuple(settings.get("input_names", ())),
        dims=settings.get("dims") or {},
        fixed_inputs=settings.get("fixed_inputs") or {},
        weights=settings.get("weights"),
    )


def reads(registry: Registry, path: Path) -> bool:
    """Return whether a front end reads files of this type, or this folder."""
    return any(_file_of(frontend, path) is not None for _, frontend in registry.usable("tpuc.frontends"))


def _file_of(frontend: Frontend, path: Path) -> Path | None:
    """Return the file of a network that a front end reads, None if it does not read the network."""
    if path.suffix.lower() in frontend.suffixes:
        return path
    inside = path / frontend.folder_file
    return inside if frontend.folder_file and inside.is_file() else None


def _frontend(registry: Registry, path: Path) -> tuple[Frontend, Path]:
    """Return the front end for a network, and the file that it reads."""
    suffixes: list[str] = []
    ways_out: list[str] = []
    failed: list[PluginError] = []
    for _, frontend in registry.usable("tpuc.frontends", failed):
        file = _file_of(frontend, path)
        if file is not None:
            tell_left_out(failed)
            return frontend, file
        suffixes += frontend.suffixes
        ways_out += [text for suffix, text in frontend.others.items() if path.suffix.lower() == suffix]
    if path.suffix.lower() == ".mlir":
        raise UsageError(f"{path}: this is a module, not a network file; compile it with `tpuc deploy --mlir`.")
    if ways_out:
        raise Unsupported(f"{path}: {ways_out[0]}{left_out(failed)}")
    raise Unsupported(
        f"{path}: no installed front end reads {kind_of(path)}; installed front ends read "
        f"{', '.join(sorted(suffixes)) or 'nothing'}{left_out(failed)}"
    )


def verify_import(
    registry: Registry, path: Path, module: Module, **settings: Unpack[TransformTestSettings]
) -> StageComparison:
    """Compare a TOP module with another engine on the network file; raises TpucError below the tolerance.

    With `batch`, which is the batch size of the module, the engine runs sample by sample.
    """
    engine, paths = _engine(registry, path), settings.get("test_input", ())
    inputs = next(iter(samples_in(inputs_of(module), paths, registry)))
    types, place = engine.input_types(path), Path(", ".join(map(str, paths)))
    foreign = {name: as_type(name, array, types.get(name, array.dtype), place) for name, array in inputs.items()}
    inputs = {name: as_type(name, foreign[name], array.dtype, place) for name, array in inputs.items()}
    folder = settings.get("keep_in")
    if folder is not None:
        write_npz(folder / f"{file_stem(module.name)}_in_f32.npz", meant_inputs(module, inputs))
    values = Interpreter(module).run(inputs, "all")
    wanted = reference_values(engine, path, foreign, settings.get("batch"), _options(path, settings))
    limits = tolerance_of("f32", settings.get("tolerance", ()))
    stored = {name: array for name, array in wanted.items() if name in values and array.dtype == values[name].dtype}
    result = compare(
        f"{path.name} and TOP",
        {**values, **meanings(module, values)},
        {**wanted, **meanings(module, stored)},
        limits,
        settings.get("excepts", ()),
        steps_of(module, values),
        NEAR_ZERO,
    )
    test_result = settings.get("test_result")
    if test_result is not None:
        write_npz(test_result, values)
    return result


def _engine(registry: Registry, path: Path) -> HostEngine:
    failed: list[PluginError] = []
    for _, engine in registry.usable("tpuc.engines", failed):
        if path.suffix.lower() in engine.suffixes:
            tell_left_out(failed)
            return engine
    raise Unsupported(f"{path}: no installed engine runs {kind_of(path)}; leave out --test-input{left_out(failed)}")
