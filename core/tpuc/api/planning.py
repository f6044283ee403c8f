"""Static memory planning (TVM's USMP): assign buffers to offsets in pools by their conflicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tpuc.errors import visible_lines


@dataclass(frozen=True)
class PoolInfo:
    """A memory pool: `size_bytes` None is unlimited; `offset` of its first byte; `target_access` is rw or ro.

    `section`: the linker section in which the generated source defines the memory.
    """

    name: str
    size_bytes: int | None = None
    alignment: int = 1
    offset: int = 0
    target_access: Mapping[str, str] | None = None
    section: str | None = None


@dataclass(frozen=True)
class BufferInfo:
    """A buffer: `conflicts` are the names of buffers that are live at the same time (not transitive);
    `pool_candidates` are pool names in order of preference, empty for any.
    """

    name: str
    size_bytes: int
    alignment: int = 1
    conflicts: frozenset[str] = frozenset()
    pool_candidates: tuple[str, ...] = ()


@dataclass(frozen=True)
class PoolAllocation:
    """The position of a buffer: byte offset from the start of the pool."""

    pool: str
    offset: int


class Planner(ABC):
    """A memory planning algorithm, registered by name in `tpuc.planners`."""

    api_version: ClassVar[int] = 1
    name: ClassVar[str]

    @abstractmethod
    def plan(self, buffers: Sequence[BufferInfo], pools: Sequence[PoolInfo]) -> dict[str, PoolAllocation]:
        """An allocation for every buffer such that conflicting buffers of one pool do not overlap.

        Raises TpucError when a buffer fits none of its pools.
        """


@dataclass(frozen=True)
class PlannedBuffer:
    """A placed buffer. It lives from program point `first` to `last`; `reason` explains its position; `candidates` are
    the pools that were allowed.
    """

    name: str
    size_bytes: int
    pool: str
    offset: int
    first: int
    last: int
    reason: str
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedPool:
    """A planned pool: `peak_bytes` are used; `bound_bytes` is a lower bound for every plan of these buffers."""

    name: str
    address: int
    size_bytes: int | None
    peak_bytes: int
    bound_bytes: int

    def text(self) -> str:
        """One line."""
        size = "" if self.size_bytes is None else f" of {self.size_bytes:,} B"
        if self.peak_bytes <= self.bound_bytes:
            quality = "no plan needs less"
        else:
            over = (self.peak_bytes / self.bound_bytes - 1) * 100
            quality = f"at least {self.bound_bytes:,} B are needed, this is {over:.1f} % more"
        return f"pool '{self.name}'{size}: {self.peak_bytes:,} B used, {quality}"


@dataclass(frozen=True)
class LayerCommands:
    """The commands of a layer (an operation of kind `op`): per engine, inclusive ranges of command numbers counted from
    1 over the whole program. A layer that only shares bytes, or runs on the host, has none.
    """

    name: str
    op: str
    commands: Mapping[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class MemoryPlan:
    """The result of a planner: pools with their peaks and proven lower bounds, and every buffer with its reason.

    `layers`: after code generation, the commands of every layer in network order.
    """

    planner: str
    pools: tuple[PlannedPool, ...]
    buffers: tuple[PlannedBuffer, ...]
    layers: tuple[LayerCommands, ...] = ()

    @property
    def peak_bytes(self) -> int:
        """Bytes used over all pools."""
        return sum(pool.peak_bytes for pool in self.pools)

    @property
    def bound_bytes(self) -> int:
        """Lower bound in bytes for every plan, over all pools."""
        return sum(pool.bound_bytes for pool in self.pools)

    def text(self) -> str:
        """One line per pool, followed by one line for each of its buffers."""
        lines = [f"planner '{self.planner}', {len(self.buffers)} buffers"]
        for pool in self.pools:
            lines.append(pool.text())
            lines += [
                f"  {buffer.offset:>12,} {buffer.size_bytes:>12,} B  {buffer.name}: {buffer.reason}"
                for buffer in sorted(self.buffers, key=lambda one: (one.offset, one.first))
                if buffer.pool == pool.name
            ]
        return visible_lines(lines)

    def to_json(self) -> Mapping[str, Any]:
        """The plan as JSON values."""
        return {
            "planner": self.planner,
            "pools": [vars(pool) for pool in self.pools],
            "buffers": [vars(buffer) for buffer in self.buffers],
            **({"layers": [vars(layer) for layer in self.layers]} if self.layers else {}),
        }
