"""Tuning constants by the question they answer: significance, margins, search grids."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ComparisonOptions:
    """When one score is better than another."""

    clearly: float = 2.0
    """Decibels by which a figure has to be lower, on both halves of the samples, to be clearly lower (record 0025)."""
    clear_gain: float = 0.3
    """Decibels that a challenger must gain, also on the first sample that equalized filters run on: less is chance.
    With 0 two of seven networks lose (0.2 and 0.02 dB) and one gains 0.2.
    """
    deviations: float = 2.0
    """Standard deviations of a difference of counts by which fewer predictions have to agree: 1 in 20 by chance. With 0
    one of seven networks gains 2.0 dB and one loses 0.2.
    """
    hopeless: float = 1.0
    """Decibels below the best table on half of the samples at which a candidate's evaluation stops, twice as many on a
    quarter, where chance is larger. It only saves time: seven networks have the same figures without it.
    """
    enough: int = 100
    """Number of samples with which metrics of outputs count half as much as their values. Without metrics MobileNet v1
    loses a prediction and 0.5 dB, UltraFace 0.6 % of its predictions; LeNet gains 1.0 dB, MNIST 0.2, nine others
    nothing.
    """
    equalized: float = 3.0
    """Decibels that equalized filters have to gain: tools that do not know the factors read their tables wrongly."""


@dataclass(frozen=True)
class Margins:
    """Headroom of ranges above the observed values."""

    output: float = 1.05
    """Of outputs: what is clipped off them is lost, and 5 % more cost 0.4 dB of resolution. On thirteen networks, in
    both directions: MNIST 35.4 to 38.2 dB, LeNet 37.6 to 39.1, SqueezeNet 26.8 to 27.0, UltraFace 35.9 to 36.2; six of
    26 cases lose 0.1 to 0.5 dB. With 1.1 MNIST gains 4.3, UltraFace loses 0.8.
    """
    rare: float = 1.6
    """For samples that do not show what is looked for, and for values that are clipped far down. Of 1.3, 1.6 and 2.0
    the best or near it for three face detectors and one for persons (record 0014).
    """
    far: float = 4.0
    """Gain in resolution for which a threshold is clipped far down: samples rarely show how far values reach when
    something is detected.
    """
    few: float = 5e-3
    """Share of an input's values that may be clipped. In keyword spotting one value in 400 is far below the others, and
    outputs gain 6 dB without it; pixels fill their range.
    """
    most: float = 0.8
    """Part of an input's largest magnitude below which the other values must end for that. It only saves time: six
    networks have the same figures without it.
    """


@dataclass(frozen=True)
class SearchGrid:
    """The thresholds that are tried."""

    steps: int = 48
    """Thresholds around a method's own."""
    per_octave: int = 8
    """Thresholds per octave where they reach far down: steps of 9 %."""
    deepest: float = 0.5
    """The lowest threshold, as a part of the method's."""
    nearly_all: float = 0.999
    """Share of the squared gradients; twice the magnitude below which that much lies is never clipped."""
    least_gain: float = 0.01
    """Thresholds closer to the largest magnitude than this part of it are not tuned. It only saves time: six networks
    have the same figures without it.
    """
    channels: int = 32
    """Channels (up to twice as many) of a convolution's result that the per-op search compares."""
    places: int = 256
    """Positions of a result that are compared: with channels some ten thousand elements."""
    much_work: float = 1e7
    """Operations of a convolution above which only a part of its result is compared."""
    many_elements: int = 1 << 15
    """Elements of an element-wise op or a pool above which only a part of its result is compared."""


@dataclass(frozen=True)
class AgreementOptions:
    """What counts as a prediction."""

    sure: float = 0.75
    """Confidence from which a prediction counts: near one half, rounding alone flips it."""
    near: float = 0.1
    """Relative root mean square error up to which numbers agree: 20 dB."""
    saturated: float = 8.0
    """Magnitude at which a logit is saturated: its sigmoid differs from 0 or 1 by 0.0003."""
    unseen_weight: float = 0.01
    """Weight of numbers at places without detection, against 1 for a confident detection. BlazeFace has the same table
    with 1; other detectors were not varied.
    """
    softer: float = 4.0
    """Logits count as this much less confident: other readers may still use what is 1 % confident."""
    rare: float = 0.05
    """Share up to which something is rare: places with presence logits above zero, samples that show a class."""
    typical_margin: float = 4.0
    """Margin of the best logit over the second in trained networks: 98 % confidence."""


@dataclass(frozen=True)
class CheckOptions:
    """When a remark on samples is made. Thresholds do not depend on these, except for `few_samples`."""

    few_samples: int = 16
    """Fewer samples are remarked on, do not show which classes are missing, and are too few for an early look at a
    quarter.
    """
    surer: float = 2.26
    """Mean gain of the swapped channel order over its standard error (Student's t): with ten samples chance alone gives
    this in 1 of 33 cases, more rarely with more.
    """
    futile: float = 0.5
    """The same on half of the samples, below which the others are not run: saves half of the work in two of three cases
    without an effect, and misses fewer than 1 in 100 effects of any size (simulated, normal gains, 10 and 32
    samples).
    """
    futile_early: float = -1.0
    """The same on a quarter: networks with the right channel order lie far below."""
    preset_gain: float = 0.03
    """Least gain of confidence with another preset. With 0 right presets of five trained classifiers caused remarks in
    12 of 60 draws of 32 samples, with this in none.
    """
    answer_small: float = 0.05
    """Deviation of the first product's results over its biases below which scales are compared. Eleven trained networks
    have 0.14 to 980 on their own samples, nine of them 0.03 or less on samples 255 times too small.
    """
    answer_large: float = 20.0
    """The same above which scales are compared. On samples 255 times too large ten of the eleven have more, two have
    more on their own samples.
    """
    scale_gain: float = 8.0
    """How many times as much outputs have to differ between samples at the other scale: 2.6 at most where samples are
    right, 30 and more for the nine networks on samples 255 times too small.
    """
    certain: float = 0.1
    """Share of probabilities that are 0 or 1: at most 0.03 in 12 networks, 0.25 and more in 4 on samples times 255."""
    huge: float = 1e3
    """Magnitude from which a range may be bimodal: masks are filled with 1e4 and more. Bimodal probabilities are
    harmless.
    """
    held_out: int = 5
    """One sample in so many is held out: the check runs both networks on each of them, while calibration runs its
    networks about ten times on each of the others, so the check takes less than a third of that time.
    """


COMPARISON = ComparisonOptions()
MARGINS = Margins()
GRID = SearchGrid()
AGREEMENT = AgreementOptions()
CHECKS = CheckOptions()
