"""Find samples that look wrong by their values alone, one sentence per kind, and leave out those that would set ranges
by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tpuc_driver.data.content import Distinct
from tpuc_driver.data.input_statistics import InputStatistics
from tpuc_driver.data.sample_input import SampleInput
from tpuc_driver.data.samples import SampleReader, SampleSource

SLACK = 0.03
"""Part of the described range by which values may lie outside; arrays that fill less were normalized differently. Of
bytes, images around their mean in units of their deviation fill 0.019, those from -1 to 1 fill 0.008.
"""
CORNER = 0.1
"""Part of the described range: values that fill less were probably scaled differently; not measured."""
FARTHEST, NARROWEST = 1000.0, 0.1
"""Preprocessed bytes beyond the first, or with a range narrower than the second, were probably scaled twice: presets
reach 255 at most, and their narrowest range is 1.
"""
FAR, ALONE = 4.0, 2.0
"""A sample reaches too far if its largest magnitude, or its level, is so many times that of the median, and of the
farthest of the others. In eleven sets of pictures, digits, speech and machine sounds no sample reaches more than 3.5
times as far as the median, and one of these twice as far as the second; in ten of them no level is more than 2.9 times
the median, or 1.2 times the second. Of speech features, samples that are ten times too large show by their magnitude
in 70 % of the cases, by their level in 93 %.
"""
MOST_LEFT_OUT = 0.05
"""Share of samples that may be left out: more of them are no mistakes but the nature of the data."""
LEAST_LEFT = 10
"""Fewest samples of which any is left out: among fewer nothing is usual."""
FAINT = 30.0
"""Ratio of the usual distance between smallest and largest value to that of a sample which was probably scaled
differently. In the eleven sets the narrowest sample has 0.31 of the usual one.
"""
NOISE, SIGNAL = 0.2, 0.5
"""Correlation of neighbors below which samples look like noise, and above which others do not: in the eleven sets no
sample has less than 0.76, and noise has 0.1 at most.
"""
SHOWN = 3
"""Number of files named in a sentence."""


@dataclass(frozen=True)
class Oddity:
    """Samples that look wrong, and a sentence about them."""

    text: str
    samples: Sequence[InputStatistics]


@dataclass(frozen=True)
class Findings:
    """Samples that are fit for calibration, their statistics, and sentences: about samples `left_out`, about what looks
    wrong, and about why no table can come of them (`useless`).
    """

    source: SampleSource
    statistics: tuple[InputStatistics, ...]
    left_out: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    useless: str = ""


def examined(given: Distinct, statistics: Sequence[InputStatistics], few: int) -> Findings:
    """What statistics of all readable samples show; with fewer than `few` samples nothing is usual."""
    source = given.source
    inputs, samples = source.inputs, _by_sample(statistics)
    where = f"Input{'s' if len(inputs) > 1 else ''} {', '.join(repr(one.name) for one in inputs)}"
    constant = [one[0] for one in samples if all(entry.is_constant for entry in one)]
    count = len(samples) + len(given.repeats)
    values = {entry.minimum for one in samples for entry in one if entry.is_constant}
    is_useless = count > 1 and len(constant) == len(samples) and len(values) == 1
    useless = _says_nothing(where, constant[0].minimum, count) if is_useless else ""
    dropped: dict[str, None] = {}
    left_out: list[str] = []
    for one in inputs:
        far = _too_far(one, [entry for entry in statistics if entry.name == one.name])
        if far:
            left_out.append(_far_sentence(one, far, statistics))
            dropped |= dict.fromkeys(entry.sample for entry in far)
    remarks, oddities = list(given.remarks), list[Oddity]()
    if constant:
        text = f"{where}: {_named(constant)} constant ({constant[0].minimum + 0.0:g} everywhere)."
        oddities.append(Oddity(text, constant))
    for one in inputs:
        rest = [entry for entry in statistics if entry.name == one.name and entry.sample not in dropped]
        oddities += _odd(one, [entry for entry in rest if not entry.is_constant], few)
    for odd in oddities:
        if len(samples) < LEAST_LEFT or len(odd.samples) > _most(samples):
            remarks.append(odd.text)
        else:
            left_out.append(f"{odd.text} Left out.")
            dropped |= dict.fromkeys(entry.sample for entry in odd.samples)
    names = SampleReader(source)
    kept = tuple(sample for place, sample in enumerate(source.samples) if names.files(place) not in dropped)
    seen = tuple(entry for entry in statistics if entry.sample not in dropped)
    return Findings(replace(source, samples=kept), seen, tuple(left_out), tuple(remarks), useless)


def _most(samples: Sequence[object]) -> int:
    """The number of samples that may be left out."""
    return max(1, int(MOST_LEFT_OUT * len(samples)))


def contradicted(one: SampleInput, statistics: Sequence[InputStatistics]) -> Iterable[str]:
    """A sentence if the described preprocessing cannot produce the values."""
    observed, expected = ends_of(statistics), _expected(one)
    if observed is None or expected is None:
        return
    words = f"Input '{one.name}' has values in {_span(observed)}, its mean and scale make bytes {_span(expected)}:"
    width = expected[1] - expected[0]
    if observed[0] < expected[0] - SLACK * width or observed[1] > expected[1] + SLACK * width:
        yield f"{words} the samples were normalized with another mean or scale."
    elif statistics[0].size > 1 and 0 < observed[1] - observed[0] < SLACK * width:
        yield f"{words} the samples were already scaled."


def ill_fitting(one: SampleInput, statistics: Sequence[InputStatistics], few: int) -> Iterable[str]:
    """A sentence if the values do not fill the range of the described preprocessing."""
    observed, expected = ends_of(statistics), _expected(one)
    if observed is None or expected is None:
        return
    (low, high), (first, last) = observed, expected
    if max(-first, last) > FARTHEST or last - first < NARROWEST:
        yield f"Input '{one.name}': its mean and scale make bytes {_span(expected)}: were they scaled twice?"
    expectation, width = f"its mean and scale make bytes {_span(expected)}", last - first
    if high - low < CORNER * width:
        yield f"Input '{one.name}' has values in {_span(observed)} only, {expectation}: scaled twice?"
    elif first < -SLACK * width < 0 <= low + SLACK * width / 2 and len(statistics) >= few:
        yield f"Input '{one.name}' never goes below {low:.4g}, {expectation}: was the mean subtracted?"


def ends_of(statistics: Sequence[InputStatistics]) -> tuple[float, float] | None:
    """The smallest and the largest value of all samples."""
    if not statistics:
        return None
    return min(entry.minimum for entry in statistics), max(entry.maximum for entry in statistics)


def _by_sample(statistics: Sequence[InputStatistics]) -> list[list[InputStatistics]]:
    samples: dict[str, list[InputStatistics]] = {}
    for entry in statistics:
        samples.setdefault(entry.sample, []).append(entry)
    return [*samples.values()]


def _says_nothing(where: str, value: float, given: int) -> str:
    """A sentence about several samples that all consist of one value."""
    return f"{where}: all {given} samples are {value + 0.0:g} everywhere, so ranges measured on them say nothing."


def _too_far(one: SampleInput, statistics: Sequence[InputStatistics]) -> list[InputStatistics]:
    """The samples that reach far beyond all others, and beyond what is described, if they are few."""
    if len(statistics) < LEAST_LEFT:
        return []
    expected = _expected(one)
    for size in (_magnitude, _level):
        far = _farthest(statistics, size)
        if far:
            least = min(entry.magnitude for entry in far)
            return far if expected is None or least > max(-expected[0], expected[1]) else []
    return []


def _farthest(statistics: Sequence[InputStatistics], size: Callable[[InputStatistics], float]) -> list[InputStatistics]:
    """The few samples that are far larger than all others."""
    usual, ranked = float(np.median([size(entry) for entry in statistics])), sorted(statistics, key=size, reverse=True)
    for count in range(_most(statistics), 0, -1):
        least = size(ranked[count - 1])
        if usual > 0 and least > FAR * usual and least > ALONE * size(ranked[count]):
            return ranked[:count]
    return []


def _far_sentence(one: SampleInput, far: Sequence[InputStatistics], statistics: Sequence[InputStatistics]) -> str:
    usual = [entry for entry in statistics if entry.name == one.name]
    reach, level = (float(np.median([size(entry) for entry in usual])) for size in (_magnitude, _level))
    largest, loudest = max(map(_magnitude, far)), max(map(_level, far))
    verb = "reaches" if len(far) == 1 else "reach up to"
    times = f"{largest / reach:.3g} times as far as usual ({reach:.4g})"
    if largest <= FAR * reach:
        times = f"with {loudest / level:.3g} times the usual root mean square ({level:.4g})"
    it = "it" if len(far) == 1 else "them"
    return f"Input '{one.name}': {_files(far)} {verb} {largest:.4g}, {times}: left out. Correct or remove {it}."


def _magnitude(entry: InputStatistics) -> float:
    return entry.magnitude


def _level(entry: InputStatistics) -> float:
    return entry.level


def _odd(one: SampleInput, statistics: Sequence[InputStatistics], few: int) -> Iterable[Oddity]:
    """Samples that differ from the others, or that resemble no data."""
    spreads = np.array([entry.spread for entry in statistics])
    usual = float(np.median(spreads)) if len(statistics) >= few else 0.0
    faint = [entry for entry in statistics if entry.size > 1 and entry.spread * FAINT < usual]
    if faint:
        values = min(entry.spread for entry in faint)
        yield Oddity(
            f"Input '{one.name}': {_named(faint)} {usual / values:.3g} times as faint as usual (values within "
            f"{values:.3g}, not {usual:.4g}): scaled differently?",
            faint,
        )
    known = [entry for entry in statistics if entry.correlation == entry.correlation]
    noisy = [entry for entry in known if entry.correlation < NOISE]
    if len(statistics) < few or not noisy:
        return
    if len(noisy) == len(statistics):
        text = f"Input '{one.name}': all {len(statistics)} samples look like noise: neighboring values are unrelated."
        yield Oddity(text, noisy)
    elif 2 * len(noisy) < len(known) and float(np.median([entry.correlation for entry in known])) > SIGNAL:
        what = "like noise: neighboring values are unrelated, unlike in the others."
        yield Oddity(f"Input '{one.name}': {_named(noisy)} {what}", noisy)


def _named(statistics: Sequence[InputStatistics]) -> str:
    first = statistics[0].sample
    return f"{first} is" if len(statistics) == 1 else f"{len(statistics)} samples, first {first}, are"


def _files(statistics: Sequence[InputStatistics]) -> str:
    names = sorted(entry.sample for entry in statistics)
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _span(ends: tuple[float, float]) -> str:
    return f"[{ends[0]:.4g}, {ends[1]:.4g}]"


def _expected(one: SampleInput) -> tuple[float, float] | None:
    """The range of preprocessed bytes; None where no preprocessing is described."""
    settings = one.preprocess
    means, scales = settings.mean, settings.scale
    if all(mean == 0 for mean in means) and all(scale == 1 for scale in scales):
        return None
    count = max(len(means), len(scales))
    ends = [
        (byte - m) * s
        for m, s in zip(np.resize(means, count), np.resize(scales, count), strict=True)
        for byte in (0, 255)
    ]
    return float(min(ends)), float(max(ends))
