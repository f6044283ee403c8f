"""The page on exported architectures: what compiles for which chip, and why the rest does not."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import exports_vendor, trained  # noqa: E402  # they lie beside this folder
from benchmarks.architectures import ARCHITECTURES, Architecture  # noqa: E402  # they lie beside this folder
from benchmarks.architectures.trained import TRAINED  # noqa: E402  # they lie beside this folder
from benchmarks.exports import CELLS, read  # noqa: E402  # they lie beside this folder

Entry = Mapping[str, Any]
COLUMNS = tuple(f"{chip} {mode}" for chip, mode in CELLS)
OUTCOMES = ("as it is", "with an option", "outside the bound", "not at all")
MARKS = {
    "refused": "no",
    "wrong": "outside the bound",
    "timeout": "over 300 s",
    "memory": "no memory",
    "failed": "error",
}
TRAINED_WORDS = (
    "`python benchmarks/trained.py` downloads the packages without installing them, and measures their files like the",
    "exports above. The reference is ONNX Runtime or LiteRT. Networks with states run over 100 frames, each side with",
    "its own states. Integer networks (microWakeWord) run as they are; others are calibrated for int8 on 16 inputs or",
    "frames of the same kind that are not compared, without tuning. A cell shows the cycles of one run and the",
    "signal-to-noise ratio of the worst output. `near 0` means that the network detects nothing in the random input,",
    "and that every value is within 1/256 (a step of bf16 below 1) plus 1 % of the reference. `-` means not measured.",
)
TRAINED_NOTES = (
    "`pose_landmark_full`: in bf16, BM1684X has the values of CV181x, down to -22 dB. Every op alone keeps 40 dB or",
    "more; about 60 convolutions in a row, half of them behind Relu6, add their rounding up, and the drawn picture",
    "shows nobody: the worst output is one score of 0.01. Over four pictures in f16, that score has 19 to 35 dB, the",
    "points of the body 39 to 53 dB. `ddddocr` is outside the bound in f16: compile it with `--quantize f32`.",
    "`nakdimon`: its tokens are floats, which were drawn with fractions; bf16 rounds 15.97 to 16, another token. Of",
    "whole numbers, the lowered networks of both chips keep 50 dB in bf16. `tashkeel` was measured on CV181x before it",
    "had casts to UINT8: of 8 characters (length 6), it gives ONNX Runtime's labels there in bf16, with probabilities",
    "within 0.03; of 64 it has 30,793 ops, since its nine GRUs with lengths are unrolled.",
)
ROUNDING_WORDS = (
    "Signal-to-noise ratio of the worst output, beside that of the imported network on the host when nothing but",
    "rounding is done to it: every value and weight in the mode's type, in int8 by the largest magnitude over the",
    "samples, known in advance. The chips calibrate without tuning. `rt_detr`, `rt_detr_v2`, and `d_fine` select other",
    "queries once a score moves by its rounding, so both columns depend on chance. `ghostnetv3_050` in bf16 loses 5 dB",
    "in its last product; computed exactly from the chip's features, it loses as much.",
)
VENDOR_WORDS = (
    "`python benchmarks/exports_vendor.py --oracle DIR` runs compiled exports of many families on the vendor's",
    "functional models. `same bits`: every output is equal to the simulator's bit for bit.",
)
SPECIFIC = re.compile(r"'[^']*'|\"[^\"]*\"|\b\d[\d,.x]*\b")
"""What differs between refusals of one kind."""


def rows(results: Mapping[str, Entry] | None = None) -> Iterator[tuple[Architecture, str, Entry]]:
    """The lines of the collection that were measured, in its order."""
    found = read() if results is None else results
    for row in ARCHITECTURES:
        for exporter in row.exporters:
            if (entry := found.get(f"{row.name} {exporter}")) is not None:
                yield row, exporter, entry


def outcome(entry: Entry, column: str) -> str | None:
    """How a file fares on a chip in a mode; None where it was not tried there. Nothing that was not imported and
    compiled counts as compiled.
    """
    steps = entry.get("steps", {})
    if steps.get("import", {}).get("result") in ("refused", "failed", "timeout", "memory"):
        return OUTCOMES[3]
    step = steps.get(column)
    if step is None:
        return None
    if step["result"] == "wrong":
        return OUTCOMES[2]
    if step["result"] != "equal":
        return OUTCOMES[3]
    return OUTCOMES[1] if "option" in step else OUTCOMES[0]


def counts(entries: Sequence[Entry], column: str) -> dict[str, int]:
    """How many files have each outcome."""
    found = dict.fromkeys(OUTCOMES, 0)
    for entry in entries:
        if (one := outcome(entry, column)) is not None:
            found[one] += 1
    return found


def share(part: int, whole: int) -> str:
    """Of so many, and in percent."""
    return f"{part} ({100 * part / whole:.0f} %)" if whole else "-"


def table(head: Sequence[str], lines: Iterator[Sequence[str]], left: int = 1) -> Iterator[str]:
    """A Markdown table; the first columns are text."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * left}{'--:|' * (len(head) - left)}"
    yield from (f"| {' | '.join(line)} |" for line in lines)


def summary(found: Sequence[tuple[Architecture, str, Entry]]) -> Iterator[str]:
    """Shares by chip and mode."""

    def lines() -> Iterator[Sequence[str]]:
        for column in COLUMNS:
            number = counts([entry for _, _, entry in found], column)
            whole = sum(number.values())
            yield column, str(whole), *(share(number[one], whole) for one in OUTCOMES)

    yield from table(("chip and mode", "files", *OUTCOMES), lines())


def families(found: Sequence[tuple[Architecture, str, Entry]]) -> Iterator[str]:
    """Files that compile, of those tried, by family."""
    by_family: dict[str, list[Entry]] = defaultdict(list)
    for row, _, entry in found:
        by_family[row.family].append(entry)

    def lines() -> Iterator[Sequence[str]]:
        for family, entries in by_family.items():
            cells: list[str] = []
            for column in COLUMNS:
                number = counts(entries, column)
                whole = sum(number.values())
                cells.append(f"{number[OUTCOMES[0]] + number[OUTCOMES[1]]} of {whole}" if whole else "-")
            yield family, *cells

    yield from table(("family", *COLUMNS), lines())


def cell(entry: Entry, column: str) -> str:
    """What the table of a family says of a file on a chip: cycles, or why there are none."""
    step = entry.get("steps", {}).get(column)
    if outcome(entry, column) is None:
        return "-"
    if step is None or step["result"] != "equal":
        return MARKS[(step or {"result": "refused"})["result"]]
    cycles = "yes" if step.get("cycles") is None else f"{step['cycles']:,}"
    option = f" `{step['option']}`" if "option" in step else ""
    return cycles + (" and processor" if step.get("host") else "") + option


def networks(found: Sequence[tuple[Architecture, str, Entry]]) -> Iterator[str]:
    """A table for each family."""
    for family in dict.fromkeys(row.family for row, _, _ in found):
        yield from ("", f"## {family[0].upper()}{family[1:]}", "")
        lines = (
            (
                f"{row.name}{'' if exporter == 'dynamo' else ' (legacy)'}",
                f"{row.package} `{row.function}`",
                ", ".join("x".join(map(str, one.shape)) for one in row.inputs),
                *(cell(entry, column) for column in COLUMNS),
            )
            for row, exporter, entry in found
            if row.family == family
        )
        yield from table(("network", "from", "inputs", *COLUMNS), lines, 3)


def causes(found: Sequence[tuple[Architecture, str, Entry]]) -> Iterator[tuple[str, str, list[str]]]:
    """Where, an example of the sentence, and the files, most frequent first."""
    groups: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for row, exporter, entry in found:
        for column, step in entry.get("steps", {}).items():
            if step["result"] == "equal":
                continue
            key = (column, SPECIFIC.sub("_", step["why"]))
            name = row.name if exporter == "dynamo" else f"{row.name} (legacy)"
            groups.setdefault(key, (step["why"], []))[1].append(name)
    for (column, _), (why, names) in sorted(groups.items(), key=lambda one: (-len(one[1][1]), one[0])):
        yield column, why, names


def refusals(found: Sequence[tuple[Architecture, str, Entry]]) -> Iterator[str]:
    """The table of causes."""
    lines = ((column, str(len(names)), code(why), ", ".join(names)) for column, why, names in causes(found))
    yield from table(("where", "files", "what was said of the first one", "networks"), lines, 4)


def outside(found: Sequence[tuple[Architecture, str, Entry]]) -> Iterator[str]:
    """What is outside its bound, beside rounding alone."""
    yield from ROUNDING_WORDS
    yield ""
    lines = (
        (
            row.name if exporter == "dynamo" else f"{row.name} (legacy)",
            column,
            f"{step['decibels']:.1f}",
            f"{step['rounding']:.1f}",
        )
        for row, exporter, entry in found
        for column, step in entry.get("steps", {}).items()
        if step["result"] == "wrong" and "rounding" in step
    )
    yield from table(("network", "where", "chip, dB", "rounding alone, dB"), lines, 2)


def trained_files(results: Mapping[str, Entry]) -> Iterator[str]:
    """The table of files that packages bring, and what was said of those that do not run."""
    found = [(row, results[row.name]) for row in TRAINED if row.name in results]
    yield from TRAINED_WORDS
    yield ""

    def lines() -> Iterator[Sequence[str]]:
        for row, entry in found:
            cells = [trained_cell(entry, column) for column in trained.CELLS]
            file = row.path.rsplit("/", 1)[-1]
            shapes = ", ".join("x".join(map(str, one.shape)) for one in row.inputs)
            yield row.name, f"`{row.package}`", f"`{file}`", f"`{row.said}`" if row.said else "", shapes, *cells

    head = ("network", "package", "file", "options", "inputs", *trained.CELLS)
    yield from table(head, lines(), 5)
    missing = [
        (f"{row.name}, {step}", code(one["why"]))
        for row, entry in found
        for step, one in entry["steps"].items()
        if one["result"] != "equal"
    ]
    yield from ("", *table(("not equal", "what was said"), iter(missing), 2), "", *TRAINED_NOTES)


def vendor_runs(results: Mapping[str, Any]) -> Iterator[str]:
    """The table of exports that ran on the vendor's functional models."""
    columns = tuple(f"{chip} {mode}" for chip, mode in exports_vendor.CELLS)

    def said(step: Mapping[str, Any] | None) -> str:
        if step is None:
            return "-"
        return {"bits": "same bits", "failed": "error"}.get(step["result"], f"{step.get('worst')} of the range")

    def lines() -> Iterator[Sequence[str]]:
        for key, entry in results.items():
            name, exporter = key.split()
            shown = name if exporter == "dynamo" else f"{name} (legacy)"
            yield shown, *(said(entry.get(column)) for column in columns)

    yield from (*VENDOR_WORDS, "", *table(("network", *columns), lines()))


def trained_cell(entry: Entry, column: str) -> str:
    """As `cell`, with the similarity to the reference in dB."""
    said, step = cell(entry, column), entry["steps"].get(column)
    if step is None or step["result"] != "equal":
        return said
    if step.get("close"):
        return f"{said}, near 0"
    return f"{said}, {'equal' if step['decibels'] >= 999 else format(step['decibels'], '.0f') + ' dB'}"


def code(text: str) -> str:
    """A sentence within a cell."""
    return f"`{text.replace('`', chr(39)).replace('|', '/')}`"


def page() -> Iterator[str]:
    """Everything below the marker."""
    found = list(rows())
    exported = [one for one in found if "export" not in one[2]]
    without = [one for one in found if "export" in one[2]]
    names = {row.name for row, _, _ in exported}
    yield f"{len(names)} architectures in {len(exported)} files."
    yield from ("", *summary(exported), "", "## By family", "", *families(exported), *networks(exported))
    yield from ("", "## Trained files", "", *trained_files(trained.read()))
    yield from ("", "## On the vendor's models", "", *vendor_runs(exports_vendor.read()))
    yield from ("", "## What is missing", "", *refusals(exported))
    yield from ("", "## Outside the bound", "", *outside(exported))
    if without:
        failed = ((f"{row.name} ({kind})", code(entry["export"])) for row, kind, entry in without)
        yield from ("", "## Not exported", "", *table(("network", "what PyTorch said"), failed, 2))
