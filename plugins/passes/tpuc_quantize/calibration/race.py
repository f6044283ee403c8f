"""The race of candidates: the order of proposers, and the rule that selects a candidate in each round."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from tpuc.api import Registry

from tpuc_quantize.calibration.candidate import Candidate
from tpuc_quantize.calibration.network_comparison import compare_networks
from tpuc_quantize.calibration.proposer import Proposer
from tpuc_quantize.calibration.search import Search
from tpuc_quantize.metrics.scores import Score, best_of
from tpuc_quantize.options.tuning import COMPARISON
from tpuc_quantize.scaling.move_factors import move_factors
from tpuc_quantize.tables.history import Entrant, Round


class Rule(Enum):
    """The rule that selects one candidate of a round."""

    BEST = "the best score"
    PREDICTIONS = "the one with headroom, unless predictions are lost"
    IMPROVEMENT = "each that is clearly better than the one before"
    SIMPLIFICATION = "the simpler one, unless it is clearly worse"
    ALWAYS = "the last one, without being compared"
    NETWORK = "another network that is clearly better with thresholds at the largest magnitudes"


@dataclass(frozen=True)
class Stage:
    """Proposers in the order in which they run, and the rule."""

    name: str
    proposers: tuple[str, ...]
    rule: Rule = Rule.BEST


_NETWORK = Stage("network", ("cross-layer-equalization",), Rule.NETWORK)
"""Runs before all other stages, which then work on the selected network."""
_CHANNELS = Stage("channels", ("channel-thresholds",), Rule.ALWAYS)
"""Active while tables are compared: where thresholds per channel are needed, all tables are equally bad without
them.
"""
_BEHIND = (
    Stage("channels", ("tensor-thresholds",), Rule.SIMPLIFICATION),
    Stage("biases", ("bias-shifts",)),
    Stage("margins", ("output-margin",), Rule.ALWAYS),
)
RACE = (
    _NETWORK,
    Stage("inputs", ("clipped-inputs",), Rule.IMPROVEMENT),
    Stage("filters", ("rounded-weights",), Rule.IMPROVEMENT),
    _CHANNELS,
    Stage("tables", ("per-op-error", "output-error", "deep-clipping", "range-estimators")),
    *_BEHIND,
)
"""Inputs come first: the noise of a coarse input hides what filters and tables differ by."""
UNSEEN_RACE = (
    _NETWORK,
    _CHANNELS,
    Stage("tables", ("unseen-range", "deep-clipping", "range-estimators"), Rule.PREDICTIONS),
    *_BEHIND,
)
"""For samples that do not show what the network looks for: thresholds get headroom."""
UNTUNED_RACE = (Stage("ranges", ("scaled-range",), Rule.ALWAYS), Stage("biases", ("bias-shifts",)))
"""For a method without tuning."""


def race_of(search: Search) -> tuple[Stage, ...]:
    """The stages for a network and its samples."""
    if not search.settings.tune_num:
        return UNTUNED_RACE
    return UNSEEN_RACE if search.settings.headroom else RACE


@dataclass
class Race:
    """Runs the stages; `rounds` and `reasons` record the comparisons and what decided them."""

    search: Search
    registry: Registry

    def __post_init__(self) -> None:
        self.rounds: list[Round] = []
        self.reasons: list[str] = []
        self._ran: list[tuple[str, Candidate, Score]] = []

    def run(self) -> Candidate:
        """Return the candidate selected in the last round."""
        stages = race_of(self.search)
        strangers = self._strangers(
            {name for stage in (*RACE, *UNSEEN_RACE, *UNTUNED_RACE) for name in stage.proposers}
        )
        placed = set[str]()
        for stage in stages:
            more = strangers.get(stage.name, ()) if stage.name not in placed and stage.rule is not Rule.ALWAYS else ()
            placed |= {stage.name} if more else set()
            self._play(replace(stage, proposers=(*stage.proposers, *more)))
        return self.search.best

    def _strangers(self, known: set[str]) -> Mapping[str, tuple[str, ...]]:
        """Proposers that the race does not list, by round."""
        found: dict[str, tuple[str, ...]] = {}
        for name, proposer in self.registry.usable("tpuc.proposers"):
            if name not in known:
                found[proposer.round] = (*found.get(proposer.round, ()), name)
        return found

    def _play(self, stage: Stage) -> None:
        self._ran = []
        match stage.rule:
            case Rule.ALWAYS:
                for _, one in self._proposals(stage.proposers):
                    self.search.best, self.search.score = one, None
            case Rule.IMPROVEMENT:
                for name in stage.proposers:
                    self._improve(stage.name, name)
            case Rule.NETWORK:
                self._change_network(stage.proposers)
            case Rule.SIMPLIFICATION:
                for name, one in self._proposals(stage.proposers):
                    self._simplify(name, one)
            case Rule.BEST | Rule.PREDICTIONS:
                self._select(stage)
        if self._ran:
            self._tell(stage)

    def _proposals(self, names: Iterable[str]) -> Iterator[tuple[str, Candidate]]:
        for name in names:
            proposer: Proposer = self.registry.get("tpuc.proposers", name)()
            for one in proposer.propose(self.search):
                yield name, one.beside(self.search.best)

    def _evaluate(self, proposer: str, one: Candidate, against: Score | None) -> Score:
        found = self.search.evaluator.evaluate(one, against)
        self._ran.append((proposer, one, found))
        return found

    def _score(self) -> Score:
        """The score of the best candidate so far."""
        if self.search.score is None:
            self.search.score = self._evaluate("", self.search.best, None)
        else:
            self._ran.append(("", self.search.best, self.search.score))
        return self.search.score

    def _improve(self, stage: str, proposer: str) -> None:
        for _, one in self._proposals([proposer]):
            score = self.search.score if self._ran and self.search.score is not None else self._score()
            found = self._evaluate(proposer, one, score)
            if not _is_better(found, score):
                return
            change = f"outputs {found.decibels:.2f} dB instead of {score.decibels:.2f} dB"
            self.reasons.append(f"{stage}: {one.name}: {change}")
            self.search.best, self.search.score = one, found

    def _change_network(self, proposers: Iterable[str]) -> None:
        """Continue with the first equivalent network that is clearly better. Later stages search anew on it: its
        thresholds differ, and its filters are rounded regardless of time.
        """
        for name, one in self._proposals(proposers):
            module = self.search.module.clone()
            move_factors(module, one.factors)
            found = compare_networks(self.search, module, name, one.name)
            self.rounds.append(found.round)
            if found.is_better:
                self.reasons.append(found.reason)
                self.search = self.search.equalized(one.factors)
                return

    def _simplify(self, proposer: str, one: Candidate) -> None:
        score = self._score()
        found = self._evaluate(proposer, one, score)
        if not _is_better(score, found):
            self.search.best, self.search.score = one, found

    def _select(self, stage: Stage) -> None:
        """The best of all candidates. Equal ones are evaluated once; the best one so far runs last where its score is
        known.
        """
        proposed = list(self._proposals(stage.proposers))
        if not proposed:
            return
        known = [] if self.search.score is None else [("", self.search.best, self.search.score)]
        alike = [pair for pair in proposed if known and pair[1].is_like(self.search.best)]
        if alike:
            proposed.remove(alike[-1])
            known = [(*alike[-1], known[0][2])]
        for name, one in proposed:
            evaluated = [*self._ran, *known]
            same = next((score for _, other, score in evaluated if one.is_like(other)), None)
            if same is not None:
                self._ran.append((name, one, same))
            else:
                scores = [score for _, _, score in evaluated]
                self._evaluate(name, one, scores[best_of(scores)] if scores else None)
        self._ran += known
        scores = [score for _, _, score in self._ran]
        tolerance = math.inf if stage.rule is Rule.PREDICTIONS else COMPARISON.clearly
        place = best_of(scores, [one.handicap for _, one, _ in self._ran], tolerance)
        _, self.search.best, self.search.score = self._ran[place]
        taken = f"{self.search.best.name}, of {len(scores)} compared: {self.search.score}"
        self.reasons.append(f"{stage.name}: {taken}")

    def _tell(self, stage: Stage) -> None:
        for _, one, score in self._ran:
            self.search.context.log(f"{stage.name}: {one.name}: {score}")
        best = self.search.best
        entrants = [Entrant(by, one.name, score.runs, str(score), one is best) for by, one, score in self._ran]
        budget = f"{len(self.search.evaluator.samples)} network evaluations for each"
        self.rounds.append(Round(stage.name, stage.rule.value, budget, tuple(entrants)))


def _is_better(one: Score, than: Score) -> bool:
    """True if clearly better in one figure and clearly worse in none."""
    return one.combined >= than.combined + COMPARISON.clear_gain and not one.is_clearly_worse_than(than)
