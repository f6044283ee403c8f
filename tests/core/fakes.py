"""Plugins that are not installed: offers with objects of our own behind them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpuc.api import (
    Assembler,
    Chip,
    ChipDescription,
    CompiledLayout,
    Constant,
    ElementType,
    Instruction,
    Legalization,
    LoadedModel,
    Module,
    Op,
    Pass,
    PassContext,
    Recorder,
    TensorType,
)
from tpuc.registry import Offer


def _same_element(type: TensorType, *_: object) -> ElementType:
    return type.element


class FakeChip(Chip):
    """A chip with modes and families, and nothing behind them."""

    def __init__(self, name: str, modes: tuple[str, ...] = ("f32", "int8"), families: tuple[str, ...] = ()) -> None:
        self.description = ChipDescription(
            name=name,
            modes=modes,
            suffix=".bin",
            lanes=8,
            lmem_bytes=2048,
            ddr_base=0,
            ddr_alignment=16,
            quantized_element=_same_element,
            families=families,
        )

    def assembler(self) -> Assembler:
        raise NotImplementedError

    def cycles(self, instruction: Instruction, profile: str) -> int:
        raise NotImplementedError

    def write(self, module: Module, layout: CompiledLayout, recorder: Recorder) -> bytes:
        raise NotImplementedError

    def load(self, data: bytes, source: str = "<bytes>") -> LoadedModel:
        raise NotImplementedError


@dataclass
class FakeTable:
    """A table whose cells are plain strings."""

    cells: Mapping[Hashable, str]
    api_version: int = 1


@dataclass(frozen=True)
class Rename(Pass):
    """Give the module another name."""

    name = "rename"
    to: str = "renamed"
    times: int = 1
    loud: bool = False
    parts: tuple[str, ...] = field(default=())

    def run(self, module: Module, context: PassContext) -> bool:
        changed = module.name != self.to
        module.name = self.to
        return changed


def offer(group: str, name: str, value: Any, package: str = "acme", version: str = "1.0") -> Offer:
    """An entry point that leads to `value`; an exception is raised instead."""

    def load() -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    return Offer(f"tpuc.{group}", name, package, version, f"{package.replace('-', '_')}:{name}", load)


def chip(name: str, package: str = "acme", version: str = "1.0", families: Sequence[str] = ()) -> Offer:
    """A package that offers a chip."""
    return offer("chips", name, FakeChip(name, families=tuple(families)), package, version)


@dataclass(frozen=True)
class PlainOp(Op):
    """An op that no chip knows."""

    name = "t.Plain"


@dataclass(frozen=True)
class DecomposingOp(Op):
    """An op that can be made of others."""

    name = "t.Decomposing"


class Decomposition(Legalization[DecomposingOp]):
    """What it is made of."""

    into = (PlainOp,)


@dataclass(frozen=True)
class WeightOp(Op, Constant):
    """A constant."""

    name = "t.W"
