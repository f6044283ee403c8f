"""The timeline in trace-event format, as opened by Perfetto and chrome://tracing."""

from __future__ import annotations

import json
from typing import Any

from tpuc.api import Engine

from tpuc_profile.report import Report


def trace_text(report: Report) -> str:
    """Return the trace: one process, a thread for each engine of each core and one for layers; times in microseconds at
    the chip's clock.
    """
    microseconds = 1e6 / report.chip.description.clock_hz
    analysis = report.analysis
    layers = len(analysis.lanes)
    events: list[dict[str, Any]] = [
        {
            "ph": "M",
            "pid": 1,
            "name": "process_name",
            "args": {"name": f"{report.chip.description.name}: {report.file}"},
        },
        {"ph": "M", "pid": 1, "tid": layers, "name": "thread_name", "args": {"name": "layers"}},
    ]
    for number, (_, _, name) in enumerate(analysis.lanes):
        events.append({"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": name}})
    for number, step in enumerate(analysis.steps):
        if not step.commands:
            continue
        event = {"cat": "layer", "id": number + 1, "pid": 1, "tid": layers, "name": report.step_name(step)}
        args = {
            "op": step.op,
            "compute_cycles": step.compute_cycles,
            "dma_cycles": step.dma_cycles,
            "read_bytes": step.read_bytes,
            "written_bytes": step.written_bytes,
            "lmem_bytes_per_lane": step.lmem_bytes,
        }
        events.append({"ph": "b", **event, "ts": step.start * microseconds, "args": args})
        events.append({"ph": "e", **event, "ts": step.end * microseconds})
    total = 0
    for entry, step, moved in zip(analysis.timeline.entries, analysis.steps_of, analysis.moved, strict=True):
        text = entry.command.instruction.describe()
        events.append(
            {
                "ph": "X",
                "pid": 1,
                "tid": entry.core * len(Engine) + int(entry.command.engine),
                "name": text.split(" ", 1)[0],
                "ts": entry.start * microseconds,
                "dur": (entry.end - entry.start) * microseconds,
                "args": {
                    "command": text,
                    "number": entry.command.number,
                    "wait": entry.command.wait,
                    "cycles": entry.end - entry.start,
                    "layer": report.step_name(analysis.steps[step]),
                },
            }
        )
        if any(moved):
            total += sum(moved)
            counter = {"ph": "C", "pid": 1, "name": "DDR bytes", "ts": entry.start * microseconds}
            events.append({**counter, "args": {"moved": total}})
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, ensure_ascii=False) + "\n"
