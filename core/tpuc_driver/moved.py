"""Old import paths: modules and names that moved, or had British spellings, keep their old names until version 0.3."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

from tpuc.spelling import american

_EVALUATION = ("tpuc.api", "tpuc.api.boundary", "tpuc.api.evaluation")
_SPLIT: Mapping[str, Sequence[str]] = {
    "tpuc.api.host": ("tpuc_driver.api.host", *_EVALUATION),
    "tpuc.data": ("tpuc_driver.data", "tpuc.ir.preprocess", "tpuc.ir.fused_postprocess"),
    "tpuc.data.fused": ("tpuc.ir.fused_postprocess",),
    "tpuc.data.inputs": ("tpuc_driver.data.inputs", "tpuc.ir.preprocess"),
    "tpuc.data.preprocess": ("tpuc_driver.data.preprocess", "tpuc.ir.preprocess"),
    "tpuc.session.compare": ("tpuc_driver.session.compare", "tpuc.interpreter.values"),
    "tpuc.session.building": ("tpuc_driver.session.pipeline", "tpuc_driver.session.values"),
    "tpuc.session.checking": ("tpuc_driver.session.checking", "tpuc_driver.session.modes"),
    "tpuc.session.running": ("tpuc_driver.session.running", "tpuc_driver.session.modes"),
    "tpuc.session.factors": ("tpuc.ir.channel_factors",),
    "tpuc.ir.equality": ("tpuc_testing.equality",),
    "tpuc.registry.blame": ("tpuc_driver.blame",),
    "tpuc.registry.problems": ("tpuc_driver.problems",),
    "tpuc.api.container": ("tpuc_chip_parts.flatbuffer",),
    "tpuc.api.simulated": ("tpuc.api.simulation",),
    "tpuc.hookspecs": ("tpuc.registry.hookspecs",),
    "tpuc_quantize.masks.keep_masks_float": ("tpuc_quantize.remedies.keep_masks_float",),
    "tpuc_quantize.remedies.keep_epsilons": ("tpuc_lower.special_values.keep_epsilons",),
    "tpuc_quantize.scaling.integer_weights": ("tpuc_prequantized.integer_weights",),
    "tpuc_quantize.scaling.links": ("tpuc_optimize.channel_links",),
}
"""Modules whose names are in several places now, or in one of another name."""

_WHOLE: Mapping[str, str] = {
    "tpuc.testing": "tpuc_testing",
    "tpuc_quantize.analysis": "tpuc_accuracy.analysis",
    "tpuc_quantize.masks": "tpuc_lower.special_values",
    "tpuc_quantize.mixed_precision": "tpuc_accuracy.mixed_precision",
    "tpuc_quantize.prequantized": "tpuc_prequantized",
    **{
        f"tpuc.{name}": f"tpuc_driver.{name}"
        for name in (
            *("api.accuracy", "api.answers", "api.board", "api.command", "api.page"),
            *("cli", "data", "diagnosis", "facade", "page", "session", "similarity", "support", "work", "written"),
        )
    },
}
"""Packages and modules that moved as they are, with everything below them."""

_NAMES: Mapping[str, Mapping[str, str]] = {
    "tpuc.api": {
        **dict.fromkeys(
            ("ACCURACY", "CHECK_SAMPLES", "SELF_CHECK", "is_written_here", "remember_written"), "tpuc_driver.api.host"
        ),
        **dict.fromkeys(("Board", "shown_size"), "tpuc_driver.api.board"),
    },
    "tpuc.api.cpu": {
        **dict.fromkeys(("cpu_function", "cpu_functions"), "tpuc.api"),
        "check_cpu_ops": "tpuc.registry.cpu_functions",
    },
}
"""Names that moved out of modules that are still there."""

_ALIASES: Mapping[str, str] = {"tpuc.onnx_backend": "tpuc_driver.onnx_backend"}
"""Modules of the driver that are meant to be found under `tpuc`."""


def new_places(name: str) -> Sequence[str]:
    """The modules that have what the module `name` had; empty for a module that did not move."""
    if name in _SPLIT:
        return _SPLIT[name]
    for old, new in _WHOLE.items():
        if name == old or name.startswith(f"{old}."):
            return (american(new + name.removeprefix(old)),)
    return () if american(name) == name or importlib.util.find_spec(american(name)) is None else (american(name),)


def spec_of(name: str) -> ModuleSpec | None:
    """How the import system makes a module that answers for one that has moved; None for any other name."""
    if name in _ALIASES:
        return ModuleSpec(name, _Alias())
    return ModuleSpec(name, _Loader(), is_package=True) if new_places(name) else None


class _Alias(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module with the same names: an imported one cannot have two specs."""
        module, found = ModuleType(spec.name), importlib.import_module(_ALIASES[spec.name])
        vars(module).update({name: value for name, value in vars(found).items() if not name.startswith("__")})
        module.__doc__ = found.__doc__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: its names are there already."""


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Moved(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: attributes are looked up when they are used."""


class _Moved(ModuleType):
    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        for place in new_places(self.__name__):
            found = getattr(importlib.import_module(place), american(name), None)
            if found is not None:
                _warn(self.__name__, name, f"{place}.{american(name)}", 3)
                return found
        raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")


def moved_name(module: str, name: str) -> object:
    """What a module had under a name that has moved to another one; raises AttributeError for any other name."""
    known = american(name)
    place = module if known != name else _NAMES.get(module, {}).get(name)
    if place is None or not hasattr(importlib.import_module(place), known):
        raise AttributeError(f"module '{module}' has no attribute '{name}'")
    _warn(module, name, f"{place}.{known}", 4)
    return getattr(importlib.import_module(place), known)


def _warn(module: str, name: str, place: str, depth: int) -> None:
    words = f"{module}.{name} is {place} now; import that. The old name works until version 0.3."
    warnings.warn(words, FutureWarning, stacklevel=depth)
