"""Tell samples apart by their content, so that repeated samples change no result."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tpuc.errors import CalibrationError
from tpuc.npz import ARCHIVE_ERRORS

from tpuc_driver.data.fingerprints import add_content
from tpuc_driver.data.sample_input import SampleInput
from tpuc_driver.data.samples import SamplePart, SampleReader, SampleSource


@dataclass(frozen=True)
class Repeat:
    """A sample left out because it equals another one: the names of both in messages."""

    sample: str
    original: str

    @staticmethod
    def remark(inputs: Sequence[SampleInput], repeats: Sequence[Repeat]) -> str:
        """A sentence about samples that are left out."""
        where = f"Input{'s' if len(inputs) > 1 else ''} {', '.join(repr(one.name) for one in inputs)}"
        first = repeats[0]
        which = f"{first.sample} is" if len(repeats) == 1 else f"{len(repeats)} samples, first {first.sample}, are"
        return f"{where}: {which} the same as an earlier sample (as {first.original}) and left out."


@dataclass(frozen=True)
class Distinct:
    """Samples, each once, and the samples left out as `repeats`."""

    source: SampleSource
    repeats: tuple[Repeat, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to say about the samples that are left out."""
        return (Repeat.remark(self.source.inputs, self.repeats),) if self.repeats else ()


def distinct(source: SampleSource) -> Distinct:
    """The samples without those that equal an earlier one. A sample mentioned several times, as in a data set with a
    weight, keeps its mentions.
    """
    mentions = dict.fromkeys(source.samples)
    places = {sample: place for place, sample in reversed([*enumerate(source.samples)])}
    reader = SampleReader(source)
    first: dict[str, tuple[SamplePart, ...]] = {}
    repeated: dict[tuple[SamplePart, ...], Repeat] = {}
    for sample, key in zip(mentions, digests(replace(source, samples=tuple(mentions))), strict=True):
        original = first.setdefault(key, sample)
        if original is not sample:
            repeated[sample] = Repeat(reader.files(places[sample]), reader.files(places[original]))
    kept = tuple(sample for sample in source.samples if sample not in repeated)
    return Distinct(replace(source, samples=kept), tuple(repeated.values()))


def digests(source: SampleSource) -> list[str]:
    """The digest of each sample: equal for equal numbers, or for equal files of another kind."""
    reader = SampleReader(source)
    return [_digest(source, reader, parts) for parts in source.samples]


def _digest(source: SampleSource, reader: SampleReader, parts: Sequence[SamplePart]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    try:
        add_content(digest, source, reader, parts)
    except (*ARCHIVE_ERRORS, CalibrationError):
        return f"unreadable {[(_stored(part.file), part.array, part.row) for part in parts]}"
    return digest.hexdigest()


def _stored(file: Path) -> str:
    try:
        return hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return f"{file}"
