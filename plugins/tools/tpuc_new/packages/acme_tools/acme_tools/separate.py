"""Memory that is never shared, so that every tensor can be read after a run."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import BufferInfo, Planner, PoolAllocation, PoolInfo, TpucError


class Separate(Planner):
    """One buffer behind the other, each in the first of its pools that has room left."""

    name = "separate"

    def plan(self, buffers: Sequence[BufferInfo], pools: Sequence[PoolInfo]) -> dict[str, PoolAllocation]:
        by_name = {pool.name: pool for pool in pools}
        used = dict.fromkeys(by_name, 0)
        plan: dict[str, PoolAllocation] = {}
        for buffer in buffers:
            for name in buffer.pool_candidates or tuple(by_name):
                pool = by_name[name]
                alignment = max(pool.alignment, buffer.alignment)
                start = -(-used[name] // alignment) * alignment
                if pool.size_bytes is None or start + buffer.size_bytes <= pool.size_bytes:
                    plan[buffer.name] = PoolAllocation(name, start)
                    used[name] = start + buffer.size_bytes
                    break
            else:
                raise TpucError(f"buffer '{buffer.name}': {buffer.size_bytes} bytes are left in no pool; enlarge one")
        return plan


SEPARATE = Separate()
