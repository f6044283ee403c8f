"""The HTML page: engines and memory over time, every layer, and every buffer with the reason for its address."""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tpuc.api import Engine
from tpuc_driver.api.page import Data, Markup
from tpuc_pages import page

from tpuc_profile.analysis import Analysis, Step, Tensor
from tpuc_profile.colors import PALETTE, colors_of
from tpuc_profile.groups import Group, groups_of
from tpuc_profile.report import Report


def page_text(report: Report) -> str:
    """Return the self-contained HTML page."""
    chip = report.chip.description.name
    return page(
        "tpuc_profile",
        {
            "TITLE": f"{Path(report.file).name} on {chip}",
            "SUBTITLE": f"by the timing profile '{report.profile}'",
            "TILES": Markup("".join(_tile(*one) for one in _tiles(report))),
            "SUMMARY": report.text(),
            "TENSORS": Markup("\n".join(_tensor(report, number) for number in range(len(report.analysis.tensors)))),
            "LAYERS": Markup("\n".join(_layer(report, *one) for one in enumerate(report.analysis.steps))),
            "DATA": Data(_data(report)),
        },
    )


def _data(report: Report) -> dict[str, Any]:
    analysis = report.analysis
    return {
        "cycles": max(1, report.cycles),
        "shown": _shown_bytes(report.chip.lmem.lane_bytes, analysis.lmem_peak_bytes),
        "engines": [name for _, _, name in analysis.lanes],
        "cores": analysis.cores,
        "palette": PALETTE,
        "colors": colors_of(analysis),
        "commands": [
            [e.core * len(Engine) + int(e.command.engine), e.start, e.end, step, e.command.instruction.describe()]
            for e, step in zip(analysis.timeline.entries, analysis.steps_of, strict=True)
        ],
        "steps": [report.step_name(step) for step in analysis.steps],
        "groups": [_group(analysis, *one) for one in enumerate(groups_of([*map(report.step_name, analysis.steps)]))],
        "blocks": [
            [b.start, b.end, b.born, max(b.read, b.born + 1), analysis.steps_of[b.writer], b.writer, b.core]
            for b in analysis.blocks
        ],
        "tensors": [
            *(
                [t.start, t.end, t.born, max(t.read, t.born + 1), name, reason, t.kind, _maker(report, t)]
                for t, name, reason in zip(analysis.tensors, report.names, report.reasons, strict=True)
            ),
            *_weights(report),
        ],
    }


def _group(analysis: Analysis, number: int, group: Group) -> list[Any]:
    """Name, first and last layer, first and last cycle, and place in the palette of neighboring layers."""
    steps = [one for one in analysis.steps[group.first : group.last + 1] if one.commands]
    start, end = min((one.start for one in steps), default=0), max((one.end for one in steps), default=0)
    return [group.name, group.first, group.last, start, end, number % len(PALETTE)]


def _weights(report: Report) -> Iterable[list[Any]]:
    """Return the constants for the DDR picture; they have no row in the buffer table."""
    size, start = report.loaded.memory.get("weights", 0), report.chip.description.ddr_base
    if size:
        yield [start, start + size, 0, max(1, report.cycles), "weights", "part of the file", "constant", -1]


def _shown_bytes(lane: int, peak: int) -> int:
    """Return the height of the local memory map: a half of a lane, or a quarter or less if no more is used."""
    while lane // 2 >= max(peak, 1):
        lane //= 2
    return lane


def _maker(report: Report, tensor: Tensor) -> int:
    """Return the step that stores a tensor; -1 for data from the host."""
    return report.analysis.steps_of[tensor.stores[0]] if tensor.stores else -1


def _tiles(report: Report) -> Iterable[tuple[str, str]]:
    analysis, cycles = report.analysis, max(1, report.cycles)
    yield f"{report.milliseconds:,.3f} ms", f"{report.cycles:,} cycles"
    for core, engine, name in analysis.lanes:
        own = analysis.busy(core, engine)
        yield f"{sum(own) / cycles:.0%}", f"{name}, {len(own):,} commands"
    if analysis.cores == 1:
        yield f"{analysis.overlap_cycles / cycles:.0%}", "both engines at once"
    over = f"{report.ddr_bytes / report.floor_bytes:.2f}" if report.floor_bytes else "-"
    yield f"{over} x DDR", f"floor of {report.floor_bytes:,} B"
    lane = report.chip.lmem.lane_bytes
    for core in range(analysis.cores):
        owner = f", core {core}" if analysis.cores > 1 else ""
        yield f"{analysis.lmem_peak_of(core) / lane:.0%}", f"of {lane:,} B per lane{owner}"


def _tile(figure: str, meaning: str) -> str:
    return f'<div class="tile"><b>{html.escape(figure)}</b><span>{html.escape(meaning)}</span></div>'


def _number(value: int, is_known: bool = True) -> str:
    return f'<td class="n" data-v="{value}">{value:,}</td>' if is_known else '<td class="n" data-v="">-</td>'


def _layer(report: Report, number: int, step: Step) -> str:
    name, share = report.step_name(step), step.busy_cycles / max(1, _all_busy(report))
    key = '<span class="key screen">&nbsp;&nbsp;&nbsp;</span>'
    part = f'<span class="share" data-share="{share:.4f}"></span> {share:.1%}'
    figures = (step.compute_cycles, step.dma_cycles)
    return (
        f'<tr tabindex="0" data-step="{number}" data-name="{html.escape(f"{name} {step.op}".lower())}">'
        f"<td>{key} {html.escape(name)}</td><td>{html.escape(step.op)}</td>"
        f"{_number(step.start, step.commands > 0)}{_number(step.end, step.commands > 0)}"
        f"{''.join(map(_number, figures))}"
        f'<td class="bar-cell" data-v="{share:.6f}">{part}</td>'
        f"<td>{step.bound}</td>"
        f"{''.join(map(_number, (step.read_bytes, step.written_bytes, step.lmem_bytes)))}</tr>"
    )


def _all_busy(report: Report) -> int:
    return sum(report.analysis.timeline.busy.values())


def _tensor(report: Report, number: int) -> str:
    tensor, name, reason = report.analysis.tensors[number], report.names[number], report.reasons[number]
    return (
        f'<tr tabindex="0" data-tensor="{number}" data-name="{html.escape(name.lower())}">'
        f"<td>{html.escape(name)}</td><td>{html.escape(tensor.kind)}</td>"
        f'<td class="n" data-v="{tensor.start}">{tensor.start:#x}</td>'
        f"{''.join(map(_number, (tensor.size_bytes, tensor.born, tensor.read)))}<td>{html.escape(reason)}</td></tr>"
    )
