"""A network file becomes a TOP module, and the module is compared with another engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from tpuc.api.frontend import Frontend, HostEngine, ImportOptions
from tpuc.data import inputs_of
from tpuc.errors import Unsupported
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc.npz import write_npz
from tpuc.registry import Registry
from tpuc.session.compare import compare, tolerance_of
from tpuc.session.reports import StageComparison
from tpuc.session.running import reference_values, samples_in

if TYPE_CHECKING:
    from tpuc.session.settings import NetworkSettings, TransformTestSettings


def read_network(registry: Registry, path: Path, settings: NetworkSettings) -> Module:
    """As it stands in the file; raises Unsupported when no installed front end reads it."""
    options = ImportOptions(
        model_name=settings.get("model_name") or path.stem,
        model_data=settings.get("model_data"),
        input_shapes=tuple(tuple(shape) for shape in settings.get("input_shapes", ())),
        output_names=tuple(settings.get("output_names", ())),
        preprocess=settings.get("preprocess") or {},
        batch=settings.get("batch"),
        random_weights=settings.get("random_weights", False),
    )
    return _frontend(registry, path).read(path, options, registry)


def frontends(registry: Registry) -> Iterator[Frontend]:
    """Every installed one."""
    return (registry.get("tpuc.frontends", name) for name in registry.names("tpuc.frontends"))


def _frontend(registry: Registry, path: Path) -> Frontend:
    suffixes: list[str] = []
    for frontend in frontends(registry):
        if path.suffix.lower() in frontend.suffixes:
            return frontend
        suffixes += frontend.suffixes
    raise Unsupported(
        f"{path}: no installed front end reads files of type '{path.suffix}'; there are front ends for "
        f"{', '.join(sorted(suffixes)) or 'nothing'}"
    )


def verify_import(
    registry: Registry, path: Path, module: Module, **settings: Unpack[TransformTestSettings]
) -> StageComparison:
    """Compare a TOP module with another engine on the network file; raises TpucError below the tolerance.

    With `batch`, the one that the module was made for, the engine runs sample by sample.
    """
    inputs = next(iter(samples_in(inputs_of(module), settings.get("test_input", ()), registry)))
    values = Interpreter(module).run(inputs, "all")
    wanted = reference_values(_engine(registry, path), path, inputs, settings.get("batch"))
    limits = tolerance_of("f32", settings.get("tolerance", ()))
    result = compare(f"{path.name} and TOP", values, wanted, limits, settings.get("excepts", ()))
    test_result = settings.get("test_result")
    if test_result is not None:
        write_npz(test_result, values)
    return result


def _engine(registry: Registry, path: Path) -> HostEngine:
    for name in registry.names("tpuc.engines"):
        engine: HostEngine = registry.get("tpuc.engines", name)
        if path.suffix.lower() in engine.suffixes:
            return engine
    raise Unsupported(f"{path}: no installed engine runs files of type '{path.suffix}'; leave out --test-input")
