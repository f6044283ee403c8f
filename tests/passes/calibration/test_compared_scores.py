"""Which table is better than another: decisions before what outputs mean, and that before the mean of decibels."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from tpuc_quantize.metrics.agreement import Agreement
from tpuc_quantize.metrics.scores import Score, best_of, halves

from tests.families import each


def score(decibels: float, *meanings: tuple[float, float], kept: tuple[int, int] = (60, 60)) -> Score:
    return Score(decibels, decibels, meanings, Agreement(*kept), 60)


class TestBest:
    def test_more_decibels_are_better_where_decisions_are_equal(self) -> None:
        assert best_of([score(20.0, (9.0, 9.0)), score(21.0, (9.0, 9.0)), score(19.0, (9.0, 9.0))]) == 1

    def test_a_table_that_loses_faces_is_not_taken_for_its_decibels(self) -> None:
        assert best_of([score(26.0, (3.0, 3.0), kept=(10, 60)), score(13.0, (3.0, 3.0), kept=(58, 60))]) == 1

    def test_a_few_decisions_may_be_chance(self) -> None:
        assert best_of([score(26.0, (3.0, 3.0), kept=(97, 100)), score(25.0, (3.0, 3.0), kept=(100, 100))]) == 0

    def test_no_output_may_drown_another(self) -> None:
        """One output is 6 dB nearer than with the other table, and a second one 10 dB further off."""
        assert best_of([score(28.0, (36.0, 36.0), (5.0, 5.0)), score(26.0, (30.0, 30.0), (15.0, 15.0))]) == 1

    def test_outputs_that_are_far_off_are_not_taken_for_what_they_mean(self) -> None:
        """Two logits that are off by the same mean the same."""
        assert best_of([score(31.0, (33.0, 33.0)), score(18.0, (37.0, 37.0))]) == 0

    def test_what_one_half_of_the_samples_finds_alone_does_not_count(self) -> None:
        assert best_of([score(28.0, (5.0, 30.0)), score(26.0, (15.0, 29.0))]) == 0

    def test_of_outputs_that_are_lost_anyway_none_is_worse(self) -> None:
        assert best_of([score(2.0, (-9.0, -9.0)), score(1.0, (-1.0, -1.0))]) == 0

    def test_of_equal_ones_the_first_is_taken(self) -> None:
        assert best_of([score(20.0, (9.0, 9.0)), score(20.0, (9.0, 9.0))]) == 0

    def test_a_table_as_the_method_made_it_has_to_be_clearly_better(self) -> None:
        near, far = score(20.2, (9.0, 9.0)), score(21.0, (9.0, 9.0))
        assert best_of([score(20.0, (9.0, 9.0)), near], [0.0, 0.3]) == 0
        assert best_of([score(20.0, (9.0, 9.0)), near, far], [0.0, 0.3, 0.3]) == 2

    def test_headroom_is_given_up_for_decisions_alone(self) -> None:
        handicaps = [0.0, math.inf]
        wide = score(20.0, (9.0, 9.0), kept=(38, 60))
        assert best_of([score(20.0, (9.0, 9.0)), score(25.0, (14.0, 14.0))], handicaps, 6.0) == 0
        assert best_of([wide, score(25.0, (14.0, 14.0), kept=(58, 60))], handicaps, 6.0) == 1

    def test_outputs_without_any_error_are_equal_to_each_other(self) -> None:
        exact = (math.inf, math.inf)
        assert best_of([score(20.0, exact), score(21.0, exact)]) == 1


class TestHopeless:
    def test_all_figures_are_lower_on_the_first_half(self) -> None:
        best = score(20.0, (9.0, 30.0))
        assert score(18.0, (7.0, 9.0)).is_hopeless_against(best)
        assert not score(19.5, (7.0, 9.0)).is_hopeless_against(best)

    def test_a_quarter_of_the_samples_tells_more_that_is_far_below(self) -> None:
        best = Score(20.0, 20.0, ((9.0, 9.0),), Agreement(60, 60), 60, quarter=20.0)
        early = [Score(one, math.nan, ((7.0, 7.0),), Agreement(15, 15), 60, quarter=one) for one in (17.5, 18.5)]
        assert [one.is_hopeless_against(best) for one in early] == [True, False]
        assert not early[0].is_hopeless_against(score(20.0, (9.0, 9.0)))

    @each("other", [score(10.0, (9.5, 9.0)), score(10.0, (7.0, 7.0), kept=(30, 30))], ids=["meaning", "decisions"])
    def test_what_keeps_decisions_better_is_looked_at(self, other: Score) -> None:
        assert not other.is_hopeless_against(score(20.0, (9.0, 30.0), kept=(50, 60)))

    def test_it_is_not_taken_for_what_the_other_half_would_have_cost(self) -> None:
        """The second half of the samples is hard for every table; what was run on the first alone did not see it."""
        best, half = score(23.0, (36.0, 21.0)), score(21.0, (35.8, 35.9), kept=(2, 2))
        assert half.is_hopeless_against(best)
        seen = half.beside(best, 2.0)
        assert seen.decibels == 21.0
        assert seen.metrics == (pytest.approx((35.85, 20.85)),)
        assert best_of([best, half]) == 1
        assert best_of([best, seen]) == 0

    def test_a_first_quarter_is_as_far_below_on_all_samples(self) -> None:
        best = dataclasses.replace(score(20.0, (9.0, 8.0)), quarter=21.0)
        early = Score(18.0, math.nan, ((7.0, 7.0),), Agreement(15, 15), 60, 18.0)
        seen = early.beside(best, 3.0)
        assert (seen.decibels, seen.metrics) == (17.0, ((7.0, 6.0),))
        assert best_of([best, seen]) == best_of([seen, best]) - 1 == 0


def test_halves_are_pooled_each() -> None:
    """Signals of 100 and 300 over noises of 1 and 3, and 1 over 10."""
    energies = np.array([[100.0, 1.0], [300.0, 3.0], [0.5, 4.0], [0.5, 6.0]])
    assert halves(energies) == pytest.approx((20.0, -10.0))
    assert halves(np.array([[1.0, 0.0], [0.0, 1.0]])) == (math.inf, -math.inf)
