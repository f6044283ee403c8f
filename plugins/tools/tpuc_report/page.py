"""The report as one self-contained HTML file."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import Any

from tpuc.api import Module, NetworkInput, TensorInfo, TensorType, Uniform
from tpuc_driver.api.host import AccuracyReport, OutputCheck, SelfCheck
from tpuc_driver.api.page import Markup
from tpuc_pages import page
from tpuc_pages.quality import Limits
from tpuc_profile.analysis import Step
from tpuc_profile.report import Report

from tpuc_report import arena, strips
from tpuc_report.accuracy import Accuracy
from tpuc_report.sources import Subject
from tpuc_report.tables import paragraph, section, stored, table, tile

FEW = 12
"""Number of names listed in a sentence."""
WITHOUT_FOLDER = "No record of the compilation: compile with --work-dir DIR, and give that folder here."
WITHOUT_SAMPLES = "Not measured: give samples with --dataset."


@dataclass(frozen=True)
class Layer:
    """A row of the layer table. Unknown entries are None or empty."""

    name: str
    op: str
    stored: str
    sqnr_db: float | None
    step: Step | None


def page_text(subject: Subject) -> str:
    """Return the whole page. Same subject, same bytes."""
    layers = list(_layers(subject))
    limits = Limits.of(layer.sqnr_db for layer in layers)
    mode = subject.origin.report.get("mode", "")
    return page(
        "tpuc_report",
        {
            "TITLE": subject.name,
            "SUBTITLE": " for ".join(filter(None, (str(mode), subject.chip.description.name))),
            "TILES": Markup("".join(tile(*one) for one in _tiles(subject))),
            "SECTIONS": Markup(
                section("accuracy", "Accuracy", *_accuracy(subject))
                + section("decisions", "What the compiler chose, and why", *_decisions(subject))
                + section("time", "Time", *_time(subject.timed))
                + section("memory", "Memory", *_memory(subject))
                + section("border", "Inputs and outputs", _border(subject))
                + section("made", "How the file was made", *_made(subject))
            ),
            "HIDDEN": Markup("" if layers else "hidden"),
            "STRIPS": Markup(_strips(layers, limits)),
            "ROWS": Markup("".join(_row(number, layer, limits) for number, layer in enumerate(layers))),
        },
    )


def _tiles(subject: Subject) -> Iterator[tuple[str, str]]:
    check, accuracy = _check_of(subject), subject.accuracy
    if check is not None:
        share = f"{check.agreement:.1%}" if check.shows else "unknown"
        yield share, f"of predictions agree with float ({check.counted}; {check.certainty})"
    if accuracy is not None and accuracy.outputs:
        worst = min(accuracy.outputs.values(), key=lambda one: one.sqnr_db)
        yield _decibels(worst.sqnr_db), "SQNR of the worst output"
    if subject.timed is not None:
        timed = subject.timed
        yield f"{timed.milliseconds:,.3f} ms", f"{timed.cycles:,} cycles, '{timed.profile}'"
        over = timed.ddr_bytes / timed.floor_bytes if timed.floor_bytes else 0.0
        yield f"{over:.2f} x", "the floor of DDR traffic"
    memory = subject.loaded.memory
    yield f"{memory.get('file', 0):,} B", "file"
    yield f"{memory.get('weights', 0) + memory.get('activations', 0):,} B", "weights and activations"


def _check_of(subject: Subject) -> SelfCheck | None:
    """Return the result on held-out samples: measured now, else by the compilation; otherwise on any samples. If
    these are the held-out samples of the compilation, it knows the margins of the others, too.
    """
    accuracy, recorded = subject.accuracy, _recorded_check(subject)
    measured = None if accuracy is None else accuracy.check
    if accuracy is None or measured is None or recorded is None:
        return measured or recorded
    is_same = accuracy.left_out > 0 and _counts(measured) == _counts(recorded)
    return recorded if recorded.tuned is False and (measured.tuned is not False or is_same) else measured


def _counts(check: SelfCheck) -> Sequence[tuple[str, int, int]]:
    return [(one.name, one.same, one.total) for one in check.outputs]


def _recorded_check(subject: Subject) -> SelfCheck | None:
    """Return the compilation's result."""
    values: Any = subject.origin.report.get("self_check")
    if not values:
        return None
    outputs = tuple(
        OutputCheck(one["name"], one["same"], one["total"], _number(one["sqnr_db"]), _expected(one))
        for one in values["outputs"]
    )
    return SelfCheck(values["subject"], values["samples"], outputs, values["tuned"], values["shows"])


def _expected(values: Mapping[str, Any]) -> tuple[float, int] | None:
    share, samples = values.get("expected"), values.get("expected_samples")
    return (share, samples) if share is not None and samples else None


def _number(value: float | None) -> float:
    return math.inf if value is None else float(value)


def _accuracy(subject: Subject) -> Iterator[str]:
    accuracy, check = subject.accuracy, _check_of(subject)
    if accuracy is None:
        yield paragraph(WITHOUT_SAMPLES + (" Self-check of the compilation:" if check is not None else ""))
    else:
        samples = f"{accuracy.samples} samples" if accuracy.samples > 1 else "1 sample"
        source = f"{samples} of {accuracy.dataset}{_which(accuracy)}"
        yield paragraph(f"The lowered network compared with the float network on {source}.")
        rows = [
            (name, _decibels(one.sqnr_db), f"{one.cosine:.6f}", f"{one.largest:.5g}")
            for name, one in accuracy.outputs.items()
        ]
        yield table(("output", "SQNR", "lowest cosine", "largest error"), rows, (1, 2, 3))
    if check is not None:
        yield paragraph(f"{check.text()}.")
        rows = [
            (one.name, f"{one.same} of {one.total}", f"{one.share:.1%}", _decibels(one.decibels))
            for one in check.outputs
        ]
        yield table(("part of an output", "predictions that agree with float", "share", "SQNR"), rows, (1, 2, 3))


def _which(accuracy: Accuracy) -> str:
    """Describe whether the network was calibrated on the samples."""
    if accuracy.is_seen:
        return ", all used for calibration: expect lower accuracy on other data"
    return f" ({accuracy.left_out} more were used for calibration and left out)" if accuracy.left_out else ""


def _decibels(value: float) -> str:
    return "equal" if value == math.inf else f"{value:.1f} dB"


def _decisions(subject: Subject) -> Iterator[str]:
    origin = subject.origin
    if not origin.report:
        yield paragraph(WITHOUT_FOLDER)
        return
    if origin.found is not None:
        yield from _modes(origin.found.lowered)
    values: Any = origin.report.get("accuracy")
    if values:
        known = {one.name for one in fields(AccuracyReport)}
        found = AccuracyReport(**{name: value for name, value in values.items() if name in known})
        yield paragraph(f"To reach the required accuracy: {found.text()}.")
    yield table(("calibration", "finding"), origin.remarks)


def _modes(module: Module) -> Iterator[str]:
    """Count ops by number format, and list the few that remain in floats."""
    kinds = {layer: stored(element) for layer, (_, element) in _lowered(module).items()}
    counts = Counter(kinds.values())
    yield table(("results stored as", "ops"), [(kind, f"{count}") for kind, count in counts.most_common()], (1,))
    floats = [name for name, kind in kinds.items() if kind in ("f32", "f16", "bf16")]
    if floats and len(floats) < len(kinds):
        listed = ", ".join(floats[:FEW]) + (f" and {len(floats) - FEW} more" if len(floats) > FEW else "")
        yield paragraph(f"In floats: {listed}.")


def _lowered(module: Module) -> dict[str, tuple[str, Any]]:
    """Return op and element type of each operation."""
    return {
        operation.results[0].name: (operation.op.name, operation.results[0].type.element)
        for operation in module.main.operations
        if operation.results
        and operation.operands
        and not isinstance(operation.op, NetworkInput)
        and isinstance(operation.results[0].type, TensorType)
    }


def _time(timed: Report | None) -> Iterator[str]:
    if timed is None:
        yield paragraph("The chip has no timing model: measure the network on the board.")
        return
    analysis = timed.analysis
    yield strips.engines(analysis, [timed.step_name(step) for step in analysis.steps])
    for line in timed.text().splitlines()[1:]:
        if not line.startswith("memory: "):
            yield paragraph(line)


def _memory(subject: Subject) -> Iterator[str]:
    sizes = {name: size for name, size in subject.loaded.memory.items() if name != "file"}
    yield strips.memory(sizes)
    device = {f"{name} (by the runtime)": size for name, size in subject.loaded.device_bytes.items()}
    sizes = {**subject.loaded.memory, **device}
    yield table(("memory", "bytes"), [(name, f"{size:,}") for name, size in sizes.items()], (1,))
    yield from arena.pictures(subject.origin.plan)


def _border(subject: Subject) -> str:
    tensors = [("input", one) for one in subject.loaded.inputs] + [("output", one) for one in subject.loaded.outputs]
    head = ("", "name", "type", "shape", "scale", "zero point")
    return table(head, [(kind, *_tensor(info)) for kind, info in tensors], (4, 5))


def _tensor(info: TensorInfo) -> Sequence[str]:
    element = info.element
    scale = (f"{element.scale:.9g}", f"{element.zero_point}") if isinstance(element, Uniform) else ("", "")
    return info.name, stored(element), "x".join(map(str, info.shape)), *scale


def _layers(subject: Subject) -> Iterator[Layer]:
    """Return what is known about each layer, in program order if known, else in the order of the lowered network."""
    ratios = {} if subject.accuracy is None else {k: v.sqnr_db for k, v in subject.accuracy.layers.items()}
    found = subject.origin.found
    lowered = {} if found is None else _lowered(found.lowered)
    steps = [] if subject.timed is None else [(subject.timed.step_name(s), s) for s in subject.timed.analysis.steps]
    for name, step in steps:
        op, element = lowered.get(name, (step.op, None))
        yield Layer(name, op, "" if element is None else stored(element), ratios.get(name), step)
    if not steps:
        for name, (op, element) in lowered.items():
            yield Layer(name, op, stored(element), ratios.get(name), None)


def _strips(layers: Sequence[Layer], limits: Limits) -> str:
    names = [layer.name for layer in layers]
    text = ""
    if any(layer.sqnr_db is not None for layer in layers):
        text += f'<h3>SQNR, up to 60 dB <span class="muted">{limits.legend()}</span></h3>\n'
        text += strips.errors(names, [layer.sqnr_db for layer in layers], limits)
    steps = [layer.step for layer in layers]
    if any(step is not None for step in steps):
        keys = '<span class="key compute"></span> compute <span class="key dma"></span> DMA'
        text += f'<h3>Cycles <span class="muted">{keys}</span></h3>\n'
        compute, dma = zip(*((0, 0) if s is None else (s.compute_cycles, s.dma_cycles) for s in steps), strict=True)
        text += strips.cycles(names, compute, dma)
    return text


def _row(number: int, layer: Layer, limits: Limits) -> str:
    step = layer.step
    words = f"<td>{escape(layer.name)}</td><td>{escape(layer.op)}</td><td>{escape(layer.stored)}</td>"
    figures: tuple[int | None, ...] = (None,) * 2 if step is None else (step.compute_cycles, step.dma_cycles)
    moved: tuple[int | None, ...] = (None,) * 2 if step is None else (step.read_bytes, step.written_bytes)
    ratio = layer.sqnr_db
    error = '<td class="n" data-v=""></td>'
    if ratio is not None:
        shown = min(max(ratio, -999.0), 999.0)
        text = _decibels(ratio).removesuffix(" dB")
        error = f'<td class="n db {limits.quality(ratio)}" data-v="{shown:.3f}">{text}</td>'
    return (
        f'<tr tabindex="0" data-row="{number}" data-name="{escape(f"{layer.name} {layer.op}".lower())}">{words}{error}'
        f"{''.join(map(_count, figures))}<td>{'' if step is None else step.bound}</td>"
        f"{''.join(map(_count, moved))}</tr>\n"
    )


def _count(value: int | None) -> str:
    return '<td class="n" data-v=""></td>' if value is None else f'<td class="n" data-v="{value}">{value:,}</td>'


def _made(subject: Subject) -> Iterator[str]:
    report = subject.origin.report
    command: Any = report.get("command")
    if command:
        yield paragraph("Command:")
        yield f"<pre>{escape(shlex.join(map(str, command)))}</pre>\n"
    else:
        yield paragraph(WITHOUT_FOLDER)
    versions: Any = report.get("versions", {})
    yield table(("package", "version"), [(str(name), str(version)) for name, version in versions.items()])
