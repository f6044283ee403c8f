"""Draws the rooms of the source tree, in the order in which a network passes through them: `pictures/rooms.svg`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 960
MARGIN, GAP = 16, 10
LINE = 17
HEAD = 44
INK, PALE = "#24292f", "#57606a"


@dataclass(frozen=True)
class Box:
    """A folder of the tree: its name, what it does, and the rooms or packages in it."""

    folder: str
    about: str
    rooms: Sequence[str]
    fill: str


STAGES: Sequence[Box] = (
    Box(
        "plugins/frontends",
        "foreign files to TOP",
        ("tpuc_importing", "tpuc_onnx", "tpuc_tflite", "tpuc_tensorflow", "tpuc_caffe", "tpuc_torch", "tpuc_lang"),
        "#dbeafe",
    ),
    Box("plugins/passes/tpuc_optimize", "simplify TOP", ("canonicalization",), "#dcfce7"),
    Box(
        "plugins/passes/tpuc_quantize",
        "ranges, precision",
        (
            *("options", "tables", "observers", "ranges", "metrics", "simulation", "calibration", "proposers"),
            *("importing", "scaling", "remedies"),
        ),
        "#fef3c7",
    ),
    Box("plugins/passes/tpuc_lower", "TOP to TPU", ("target", "lowering", "boundary", "special_values"), "#fee2e2"),
    Box("plugins/passes/tpuc_plan", "tiles, addresses", ("tasks", "regions", "ddr", "planners", "usmp"), "#ede9fe"),
    Box(
        "plugins/chips",
        "instructions, files",
        ("tpuc_bm1684x", "tpuc_bm1688", "tpuc_cv18", "tpuc_cv183x", "tpuc_cv18xx", "tpuc_c"),
        "#fce7f3",
    ),
)
"""A network goes through these from left to right."""

ACCURACY = Box(
    "plugins/passes/tpuc_accuracy", "which ops stay float, and why", ("analysis", "mixed_precision"), "#fef3c7"
)
"""Runs the stages to compare what they give."""

FLOORS: Sequence[Sequence[Box]] = (
    (Box("plugins/passes/tpuc_prequantized", "networks that come quantized", (), "#fef3c7"),),
    (
        Box("core/tpuc_driver", "runs the stages", ("session", "data", "work", "facade", "cli", "api"), "#e2e8f0"),
        Box("plugins/ops", "what ops mean", ("tpuc_ops", "tpuc_legalize", "tpuc_chip_parts"), "#e2e8f0"),
    ),
    (
        Box(
            "core/tpuc",
            "the compiler; knows no plugin",
            ("ir", "registry", "schedule", "interpreter", "machine", "api"),
            "#cbd5e1",
        ),
    ),
)
"""What the stages rest on, from the top down."""

TOOLS = Box(
    "plugins/tools",
    "commands, data, pages",
    (
        *("tpuc_check", "tpuc_eval", "tpuc_profile", "tpuc_visual", "tpuc_report", "tpuc_npz", "tpuc_regress"),
        *("tpuc_images", "tpuc_video", "tpuc_new", "tpuc_pages", "tpuc_dask"),
    ),
    "#f1f5f9",
)

BETWEEN: Mapping[int, str] = {0: "TOP", 1: "TOP", 2: "ranges", 3: "TPU", 4: "steps"}
"""What a stage hands on, below the arrow to the next one."""


def picture() -> str:
    """The drawing as SVG; equal in every run."""
    parts: list[str] = []
    top = float(MARGIN)
    for box in (TOOLS, ACCURACY):
        top = _wide(parts, box, MARGIN, top, WIDTH - 2 * MARGIN)
    height = HEAD + LINE * max(len(box.rooms) for box in STAGES) + GAP
    gap = 40
    width = (WIDTH - 2 * MARGIN - gap * (len(STAGES) - 1)) / len(STAGES)
    for index, box in enumerate(STAGES):
        left = MARGIN + index * (width + gap)
        parts += _column(box, left, top, width, height)
        if index in BETWEEN:
            parts += _arrow(left + width, top + 22, gap, BETWEEN[index])
    top += height + GAP
    for floor in FLOORS:
        width = (WIDTH - 2 * MARGIN - GAP * (len(floor) - 1)) / len(floor)
        ends = [_wide(parts, box, MARGIN + n * (width + GAP), top, width) for n, box in enumerate(floor)]
        top = max(ends)
    size = f'width="{WIDTH}" height="{top + MARGIN - GAP:g}" viewBox="0 0 {WIDTH} {top + MARGIN - GAP:g}"'
    style = f'font-family="sans-serif" font-size="12" fill="{INK}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>',
            "<title>The packages of the compiler and their rooms</title>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _column(box: Box, left: float, top: float, width: float, height: float) -> Iterator[str]:
    yield _rect(left, top, width, height, box.fill)
    yield _text(left + 8, top + 18, box.folder.rpartition("/")[2], bold=True)
    yield _text(left + 8, top + 34, box.about, color=PALE, size=11)
    for row, room in enumerate(box.rooms):
        yield _text(left + 8, top + HEAD + LINE * (row + 0.7), room)


def _wide(parts: list[str], box: Box, left: float, top: float, width: float) -> float:
    """A box whose rooms stand beside each other; returns where the next one begins."""
    cell = 14 + 7 * max(map(len, box.rooms), default=1)
    per_row = int((width - 16) // cell)
    rows = [box.rooms[begin : begin + per_row] for begin in range(0, len(box.rooms), per_row)]
    height = 28 + LINE * len(rows) + 4
    parts.append(_rect(left, top, width, height, box.fill))
    name = box.folder if box.folder.startswith("core/") else box.folder.rpartition("/")[2]
    parts.append(_text(left + 8, top + 18, name, bold=True))
    parts.append(_text(left + 16 + 7.2 * len(name), top + 18, box.about, color=PALE, size=11))
    for number, row in enumerate(rows):
        for place, room in enumerate(row):
            parts.append(_text(left + 8 + cell * place, top + 36 + LINE * number, room))
    return top + height + GAP


def _arrow(left: float, top: float, width: float, label: str) -> Iterator[str]:
    end = left + width - 4
    yield f'<path d="M{left + 4:g} {top:g}H{end:g}m-6 -4l6 4l-6 4" fill="none" stroke="{PALE}" stroke-width="1.5"/>'
    yield _text(left + width / 2, top + 16, label, color=PALE, size=10, anchor="middle")


def _rect(left: float, top: float, width: float, height: float, fill: str) -> str:
    where = f'x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {where} rx="6" fill="{fill}" stroke="#94a3b8"/>'


def _text(
    left: float, top: float, text: str, *, bold: bool = False, color: str = INK, size: int = 12, anchor: str = "start"
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    placed = f'x="{left:g}" y="{top:g}" font-size="{size}" fill="{color}" text-anchor="{anchor}"'
    return f"<text {placed}{weight}>{escape(text)}</text>"
