"""Read and write lists of buffers as JSON, to plan them separately."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tpuc.api import BufferInfo, InvalidModel, PoolInfo

from tpuc_plan.planners.arena import Lived, buffer_list
from tpuc_plan.usmp.planner import PlacedProgram


def list_text(placed: PlacedProgram) -> str:
    """Return all buffers of a program as JSON: live ranges, sizes, and candidate pools."""
    pools = [
        {"name": pool.name, "size_bytes": pool.size_bytes, "alignment": pool.alignment}
        for pool in (*placed.pools.workspace, *placed.pools.parameter)
    ]
    buffers = [
        {
            "name": buffer.name,
            "size_bytes": buffer.size_bytes,
            "first": buffer.first,
            "last": buffer.last,
            "pool_candidates": list(buffer.candidates),
        }
        for plan in (placed.workspace, placed.parameter)
        for buffer in plan.buffers
    ]
    return json.dumps({"pools": pools, "buffers": buffers}, indent=2) + "\n"


def read_list(path: Path) -> tuple[list[BufferInfo], list[PoolInfo], list[Lived]]:
    """Read a dumped list, or a plan written by `--memory-plan`; raises InvalidModel for anything else."""
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        pools = [
            PoolInfo(row["name"], row.get("size_bytes"), row.get("alignment", 1), row.get("offset", 0))
            for row in content["pools"]
        ]
        lived = [
            Lived(
                row["name"],
                int(row["size_bytes"]),
                int(row["first"]),
                int(row["last"]),
                tuple(row["pool_candidates"]) if "pool_candidates" in row else (row["pool"],),
            )
            for row in content["buffers"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidModel(
            f"{path} is not a list of buffers ({type(error).__name__}: {error}); it needs 'pools' with names and "
            "'buffers'"
            " with name, size_bytes, first and last, as --dump writes them"
        ) from error
    return buffer_list(lived), pools, lived
