"""The calibration table: one line `op_name threshold min max` per tensor, the text form shared with TPU-MLIR."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tpuc.api import CalibrationError, read_text, write_atomic

COLUMNS = "# op_name    threshold    min    max"
SECTIONS = ("asym_op", "int4_th")  # what TPU-MLIR appends below the table proper
NOTES = ("bias_shift", "channel_threshold")  # sections of our own, as remarks line by line, which TPU-MLIR reads over


@dataclass(frozen=True)
class TensorThreshold:
    """A tensor's symmetric threshold, and its range for asymmetric quantisation."""

    threshold: float
    minimum: float
    maximum: float


@dataclass(frozen=True)
class CalibrationTable:
    """Entries by tensor name, in table order.

    `remarks` are header lines without the `#`; `sections` the appendices of TPU-MLIR (`asym_op`, `int4_th`) by line.
    """

    entries: Mapping[str, TensorThreshold]
    remarks: tuple[str, ...] = ()
    sections: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def write(self, path: Path) -> None:
        """Write the table as text, whole or not at all."""
        write_atomic(path, format_table(self))


def make_remarks(
    methods: tuple[str, ...], bins: int, samples: int, tune_samples: int, source_date_epoch: int | None = None
) -> tuple[str, ...]:
    """The usual header; it carries a time only when the caller passes `SOURCE_DATE_EPOCH`."""
    time: tuple[str, ...] = ()
    if source_date_epoch is not None:
        moment = dt.datetime.fromtimestamp(source_date_epoch, dt.UTC)
        time = (f"generated time: {moment:%Y-%m-%d %H:%M:%S}",)
    return (
        *time,
        f"quantization threshold calculation method: {list(methods)}",
        f"histogram number: {bins}",
        f"sample number: {samples}",
        f"tune number: {tune_samples}",
    )


def format_table(table: CalibrationTable) -> str:
    """The table as text; the same table always gives the same text."""
    lines = [f"# {remark}" for remark in table.remarks]
    lines += ["###", COLUMNS]
    for name, entry in table.entries.items():
        if not name or name != " ".join(name.split()) or name.startswith("#"):
            raise CalibrationError(f"tensor name {name!r} cannot stand in a calibration table. Rename it in the model.")
        lines.append(f"{name} {entry.threshold:.7f} {entry.minimum:.7f} {entry.maximum:.7f}")
    for section, content in table.sections.items():
        if section in NOTES:
            lines += [f"#{section} {line}" for line in content]
        else:
            lines += ["", f"#{section}", *content]
    return "\n".join(lines) + "\n"


def as_table(given: CalibrationTable | str | Path | None) -> CalibrationTable | None:
    """A table, or the table of a file."""
    return read_table(Path(given)) if isinstance(given, (str, Path)) else given


def read_table(path: Path) -> CalibrationTable:
    """Read a table of tpuc or TPU-MLIR; raises `CalibrationError` with file, line, reason and way out."""
    return parse_table(read_text(path, CalibrationError, "Make a calibration table with 'tpuc calibrate'."), str(path))


def parse_table(text: str, file: str = "calibration table") -> CalibrationTable:
    """Read the text of a table; `file` is how errors call it."""
    entries: dict[str, TensorThreshold] = {}
    remarks: list[str] = []
    sections: dict[str, list[str]] = {}
    section: list[str] | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        heading = line.removeprefix("#").strip()
        if line.startswith("#") and heading in SECTIONS:
            section = sections.setdefault(heading, [])
        elif section is not None and not line.startswith("#"):
            section += [line] if line else []
        elif line.startswith("#"):
            note, _, content = heading.partition(" ")
            if note in NOTES:
                sections.setdefault(note, []).append(content)
            elif heading.strip("#") and heading.split()[0] != "op_name":
                remarks.append(heading)
        elif line:
            name, entry = _parse_line(line, f"{file}:{number}")
            if name in entries:
                raise CalibrationError(f"{file}:{number}: {name!r} stands twice in the table. Delete one of the lines.")
            entries[name] = entry
    if not entries:
        raise CalibrationError(
            f"{file}: no line 'op_name threshold min max' in it. Make it again with 'tpuc calibrate'."
        )
    return CalibrationTable(entries, tuple(remarks), {name: tuple(lines) for name, lines in sections.items()})


def _parse_line(line: str, where: str) -> tuple[str, TensorThreshold]:
    fields = line.rsplit(None, 3)
    if len(fields) < 4:
        raise _corrupt(where, f"{len(fields)} fields in {line!r}, is a space missing after the name?")
    name, *texts = fields
    numbers: list[float] = []
    for text in texts:
        try:
            numbers.append(float(text))
        except ValueError as error:
            raise _corrupt(
                where, f"{text!r} is not a number in {line!r}, is a space missing or one too many?"
            ) from error
    threshold, minimum, maximum = numbers
    if not all(math.isfinite(n) for n in numbers):
        raise _corrupt(where, f"{name!r} has a value that is not finite")
    if threshold < 0:
        raise _corrupt(where, f"{name!r} has the negative threshold {threshold:g}")
    if minimum > maximum:
        raise _corrupt(where, f"{name!r} has its minimum {minimum:g} above its maximum {maximum:g}")
    return name, TensorThreshold(threshold, minimum, maximum)


def _corrupt(where: str, reason: str) -> CalibrationError:
    return CalibrationError(
        f"{where}: {reason}. Write 'op_name threshold min max', or make the table again with 'tpuc calibrate'."
    )
