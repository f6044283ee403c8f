"""Static memory planning: buffers with conflicts go to offsets in pools (TVM's unified memory planning, USMP)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class PoolInfo:
    """A memory: `size_bytes` None is unlimited; `offset` is where its first byte lies; `target_access` is rw or ro."""

    name: str
    size_bytes: int | None = None
    alignment: int = 1
    offset: int = 0
    target_access: Mapping[str, str] | None = None


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
    """Where a buffer lies: byte offset from the start of the pool."""

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
