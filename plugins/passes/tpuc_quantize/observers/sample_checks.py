"""Check samples before they are used and report likely mistakes, one sentence each.

Values are compared with the preprocessing described for the network input: images of bytes become ``[(0 - mean) *
scale, (255 - mean) * scale]`` per channel. A wrong mean or scale shows when values leave that range or fill only a
corner of it. A wrong channel order shows only through the network: a classifier that is clearly more confident with red
and blue exchanged was probably trained with the other order; one that hardly uses color shows nothing. Networks without
a class vector at the end, and mistakes that stay inside the range, are not detected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import CalibrationError, Module, PassContext
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import (
    Job,
    Pool,
    PortableModule,
    SampleInput,
    SampleReader,
    SampleSource,
    small_units_of,
    units_of,
)
from tpuc_ops import elementary

from tpuc_quantize.observers.collector import Counting, CountingRun, Histograms, Kept, Seen, merge_histograms
from tpuc_quantize.observers.preset_checks import better_presets, is_classifier, significance
from tpuc_quantize.observers.progress_file import Progress
from tpuc_quantize.options.budgets import BUDGETS, color_samples
from tpuc_quantize.options.tuning import CHECKS


@dataclass(frozen=True)
class Look:
    """Statistics of one input of one sample."""

    sample: str
    name: str
    minimum: float
    maximum: float
    size: int
    digest: bytes


@dataclass(frozen=True)
class ChannelSwap:
    """How much more confident the network is of a sample with red and blue exchanged; its statistics without the
    exchange, and other observations.
    """

    gain: float
    histograms: Histograms
    seen: Seen


@dataclass(frozen=True)
class Lint:
    """Suspicious findings, most serious first. The first samples were run; `histograms` are of their values, `runs`
    their other observations.
    """

    findings: tuple[str, ...]
    histograms: Histograms
    runs: Sequence[Seen] = ()

    def enter(self, progress: Progress, kept: Kept) -> None:
        """Use the runs as the beginning of the statistics."""
        progress.histograms, progress.seen = self.histograms, len(self.runs)
        progress.outputs = {place: self.runs[place].outputs for place in kept.places if place < len(self.runs)}
        progress.values = {place: one.values for place, one in enumerate(self.runs) if one.values}
        progress.products = {place: one.products for place, one in enumerate(self.runs) if one.products}


@dataclass(frozen=True)
class LookJob(Job[list[Look]]):
    """Looks at every readable sample; unreadable ones are reported when they are needed."""

    samples: SampleSource

    def prepare(self) -> Callable[[range], list[Look]]:
        reader = SampleReader(self.samples)

        def one(index: int) -> list[Look]:
            return [
                Look(
                    reader.files(index),
                    name,
                    float(array.min()),
                    float(array.max()),
                    array.size,
                    hashlib.blake2b(np.ascontiguousarray(array).view(np.uint8).data, digest_size=16).digest(),
                )
                for name, array in reader.find(index).items()
            ]

        return lambda unit: [look for index in unit for look in one(index)]


@dataclass(frozen=True)
class ChannelSwapJob(Job[list[ChannelSwap | None]]):
    """Runs samples unchanged and with red and blue exchanged along an axis; None for unreadable ones."""

    network: PortableModule
    samples: SampleSource
    axis: int
    counting: Counting
    kept: Kept

    def prepare(self) -> Callable[[range], list[ChannelSwap | None]]:
        runner, reader = CountingRun(self.network, self.counting, self.kept), SampleReader(self.samples)
        interpreter = runner.interpreter

        def one(index: int) -> ChannelSwap | None:
            sample = reader.find(index)
            if not sample:
                return None
            counted: Histograms = {}
            exchanged = {name: np.ascontiguousarray(np.flip(array, self.axis)) for name, array in sample.items()}
            observed = runner.run(index, sample, counted, self.kept.names)
            plain = {name: observed.outputs[name] for name in interpreter.output_names}
            return ChannelSwap(_confidence(interpreter.run(exchanged)) - _confidence(plain), counted, observed)

        return lambda unit: [one(index) for index in unit]


def lint(
    network: PortableModule,
    samples: SampleSource,
    pool: Pool,
    context: PassContext,
    counting: Counting,
    kept: Kept | None = None,
) -> Lint:
    """Look at all samples, and run some of them where that is informative. Raises CalibrationError where they
    contradict the described preprocessing.
    """
    units = small_units_of(len(samples))
    results = context.progress(pool.map(LookJob(samples), units), "looking at samples", len(units))
    looks = [look for unit in results for look in unit]
    _check_description(samples.inputs, looks)
    histograms: Histograms = {}
    gains: list[float | None] = []
    runs = list[Seen]()
    for one in _channel_swaps(network, samples, pool, context, counting, kept or Kept()):
        if one is not None and None not in gains:
            merge_histograms(histograms, one.histograms)
            runs.append(one.seen)
        gains.append(None if one is None else one.gain)
    presets: list[str] = []
    if len(samples.inputs) == 1:
        presets += better_presets(network, samples, _ends(looks), pool, context)
    findings: list[str] = []
    for one in samples.inputs:
        own = [look for look in looks if look.name == one.name]
        findings += [*_range(one, own), *(presets or _exchanged(one, gains)), *_outliers(one, own)]
    findings += _alike(looks)
    if samples.inputs and len(samples) < CHECKS.few_samples:
        findings.append(f"Only {len(samples)} sample(s): ranges will be too narrow; 100 to 200 are usually enough.")
    return Lint(tuple(findings), histograms, runs)


def _channel_swaps(
    network: PortableModule, samples: SampleSource, pool: Pool, context: PassContext, counting: Counting, kept: Kept
) -> Iterator[ChannelSwap | None]:
    """The evidence of the first samples on the channel order: a few first, the others only if needed."""
    axis = _color_axis(samples.inputs, network.module)
    if axis is None:
        return
    count = color_samples(network.module, len(samples))
    job = ChannelSwapJob(network, samples, axis, counting, kept)
    units = units_of(count, 1)
    gains: list[float | None] = []
    quarter, half = count // 4 if count >= CHECKS.few_samples else 0, count // 2
    for begin, end, least in (
        (0, quarter, CHECKS.futile_early),
        (quarter, half, CHECKS.futile),
        (half, count, CHECKS.futile),
    ):
        part = units[begin:end]
        for found in context.progress(pool.map(job, part), "comparing channel orders", len(part)):
            gains += [None if one is None else one.gain for one in found]
            yield from found
        if _significance(gains) < least:
            return


def _check_description(inputs: Sequence[SampleInput], looks: Sequence[Look]) -> None:
    found = [text for one in inputs for text in _contradicted(one, [look for look in looks if look.name == one.name])]
    if found:
        raise CalibrationError(
            f"{' '.join(found)} Give arrays as the network takes them, or transform the network with the preprocessing "
            "of the arrays (--preprocess, --mean, --scale)."
        )


def _contradicted(one: SampleInput, looks: Sequence[Look]) -> Iterable[str]:
    """True if the described preprocessing cannot produce the values."""
    observed, expected = _ends(looks), _expected(one)
    if observed is None or expected is None:
        return
    words = f"Input '{one.name}' has values in {_span(observed)}, its mean and scale make bytes {_span(expected)}:"
    width = expected[1] - expected[0]
    if observed[0] < expected[0] - CHECKS.slack * width or observed[1] > expected[1] + CHECKS.slack * width:
        yield f"{words} the samples were normalized with another mean or scale."
    elif looks[0].size > 1 and 0 < observed[1] - observed[0] < CHECKS.slack * width:
        yield f"{words} the samples were already scaled."


def _range(one: SampleInput, looks: Sequence[Look]) -> Iterable[str]:
    """A finding if the values do not fill the range of the described preprocessing."""
    observed, expected = _ends(looks), _expected(one)
    if observed is None or expected is None:
        return
    (low, high), (first, last) = observed, expected
    if max(-first, last) > CHECKS.huge or last - first < CHECKS.corner:
        yield f"Input '{one.name}': its mean and scale make bytes {_span(expected)}: were they scaled twice?"
    expectation, width = f"its mean and scale make bytes {_span(expected)}", last - first
    if high - low < CHECKS.corner * width:
        yield f"Input '{one.name}' has values in {_span(observed)} only, {expectation}: scaled twice?"
    elif first < -CHECKS.slack * width < 0 <= low + CHECKS.slack * width / 2 and len(looks) >= CHECKS.few_samples:
        yield f"Input '{one.name}' never goes below {low:.4g}, {expectation}: was the mean subtracted?"


def _ends(looks: Sequence[Look]) -> tuple[float, float] | None:
    """The smallest and the largest value of all samples."""
    return (min(look.minimum for look in looks), max(look.maximum for look in looks)) if looks else None


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


def _exchanged(one: SampleInput, gains: Sequence[float | None]) -> Iterable[str]:
    known = [gain for gain in gains if gain is not None]
    if len(known) >= BUDGETS.least_colors and _significance(gains) >= CHECKS.surer:
        yield (
            f"Input '{one.name}': swapping red and blue makes the network more confident on "
            f"{sum(gain > 0 for gain in known)} of {len(known)} samples; check RGB against BGR."
        )


def _significance(gains: Sequence[float | None]) -> float:
    """The mean gain over its standard error; 0 where nothing is known."""
    return significance(np.array([gain for gain in gains if gain is not None]))


def _alike(looks: Sequence[Look]) -> Iterable[str]:
    """Samples that are constant, or equal to another one, in all of their inputs: a mask alone may well repeat."""
    samples: dict[str, dict[str, Look]] = {}
    for look in looks:
        samples.setdefault(look.sample, {})[look.name] = look
    names = list(dict.fromkeys(look.name for look in looks))
    where = f"Input{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}:"
    parts = [[*one.values()] for one in samples.values()]
    constant = [one[0] for one in parts if all(look.size > 1 and look.minimum == look.maximum for look in one)]
    if constant:
        yield f"{where} {_named(constant)} constant ({constant[0].minimum:g} everywhere)."
    first: dict[tuple[bytes, ...], str] = {}
    origins = [first.setdefault(tuple(look.digest for look in one), one[0].sample) for one in parts]
    repeats = [(one[0], origin) for one, origin in zip(parts, origins, strict=True) if origin != one[0].sample]
    if repeats:
        yield f"{where} {_named([look for look, _ in repeats])} the same as an earlier sample (as {repeats[0][1]})."


def _outliers(one: SampleInput, looks: Sequence[Look]) -> Iterable[str]:
    """Samples far outside the others' range."""
    sizes = np.array([max(-look.minimum, look.maximum) for look in looks])
    usual = float(np.median(sizes)) if sizes.size else 0.0
    large = [look for look, size in zip(looks, sizes, strict=True) if usual > 0 and size > CHECKS.outlier * usual]
    if large:
        yield f"Input '{one.name}': {_named(large)} more than {CHECKS.outlier:g} times as large as usual ({usual:.4g})."


def _named(looks: Sequence[Look]) -> str:
    return f"{looks[0].sample} is" if len(looks) == 1 else f"{len(looks)} samples, first {looks[0].sample}, are"


def _color_axis(inputs: Sequence[SampleInput], module: Module) -> int | None:
    """The axis of the only input's three color channels, where the network ends in one class vector."""
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or not is_classifier(module):
        return None
    (one,) = inputs
    axis = 1 if one.preprocess.layout == "nchw" else 3
    return axis if one.shape[axis] == 3 and np.dtype(one.dtype).kind == "f" else None


def _confidence(outputs: dict[str, Array]) -> float:
    """The margin of the best class over the second before a softmax; 0 where there is no class vector."""
    (array,) = outputs.values()
    values = np.sort(array.astype(np.float64).reshape(-1))
    if array.size != max(array.shape) or values.size < 3:
        return 0.0
    if values[0] >= 0 and abs(values.sum() - 1) < 1e-3:
        values = elementary.log(values + 1e-12)  # probabilities: as they were before the softmax
    return float(values[-1] - values[-2])
