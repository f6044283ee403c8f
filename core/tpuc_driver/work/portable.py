"""Serialize modules for other processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tpuc.ir import Module
from tpuc.ir.text import parse_module, print_module
from tpuc.registry import Registry


class PortableModule:
    """Picklable module: text and arrays, with the registry that resolves its ops."""

    def __init__(self, module: Module, registry: Registry) -> None:
        self.module = module
        self.registry = registry

    def __reduce__(self) -> tuple[Callable[..., PortableModule], tuple[Any, ...]]:
        weights = {name: self.module.weights[name] for name in self.module.weights}
        return _restore, (print_module(self.module), weights, self.registry)


def _restore(text: str, weights: Mapping[str, Any], registry: Registry) -> PortableModule:
    module = parse_module(text, registry.resolve_op)
    for name, array in weights.items():
        module.weights[name] = array
    return PortableModule(module, registry)
