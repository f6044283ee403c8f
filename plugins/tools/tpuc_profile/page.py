"""A page that needs nothing else: maps of both memories over time, and every buffer with the reason for its place."""

from __future__ import annotations

import html
from importlib.resources import files

from tpuc.api.page import Data, Markup, fill_page

from tpuc_profile.report import Report


def page_text(report: Report) -> str:
    """The HTML page; all data are inside it."""
    analysis = report.analysis
    data = {
        "cycles": max(1, report.cycles),
        "clock": report.chip.description.clock_hz,
        "lane": report.chip.lmem.lane_bytes,
        "lanes": report.chip.lmem.lanes,
        "commands": [
            [int(e.command.engine), e.start, e.end, step, e.command.instruction.describe()]
            for e, step in zip(analysis.timeline.entries, analysis.steps_of, strict=True)
        ],
        "steps": [report.step_name(step) for step in analysis.steps],
        "blocks": [
            [b.start, b.end, b.born, max(b.read, b.born + 1), analysis.steps_of[b.writer], b.writer]
            for b in analysis.blocks
        ],
        "tensors": [
            [t.start, t.end, t.born, max(t.read, t.born + 1), name, reason, t.kind]
            for t, name, reason in zip(analysis.tensors, report.names, report.reasons, strict=True)
        ],
    }
    rows = "\n".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(t.kind)}</td><td class=n>{t.start:#x}</td>"
        f"<td class=n>{t.size_bytes:,}</td>"
        f"<td class=n>{t.born:,}</td><td class=n>{t.read:,}</td><td>{html.escape(reason)}</td></tr>"
        for t, name, reason in zip(analysis.tensors, report.names, report.reasons, strict=True)
    )
    layers = "\n".join(
        f"<tr><td>{html.escape(report.step_name(s))}</td><td>{html.escape(s.op)}</td>"
        + "".join(
            f"<td class=n>{figure:,}</td>"
            for figure in (
                *(s.start, s.end, s.compute_cycles, s.dma_cycles),
                *(s.read_bytes, s.written_bytes, s.lmem_bytes),
            )
        )
        + "</tr>"
        for s in analysis.steps
    )
    template = (files("tpuc_profile") / "page.html").read_text(encoding="utf-8")
    return fill_page(
        template,
        {
            "TITLE": f"{report.file} on {report.chip.description.name}",
            "SUMMARY": report.text(layers=False),
            "TENSORS": Markup(rows),
            "LAYERS": Markup(layers),
            "DATA": Data(data),
        },
    )
