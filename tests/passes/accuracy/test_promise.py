"""The search among forms of a network: how many are tried, and which is kept."""

from __future__ import annotations

import pytest
from tpuc.api import Module, Unsupported
from tpuc_driver.api.accuracy import OpenedMeasure
from tpuc_quantize.mixed_precision.accuracy_constraint import Form, Promise
from tpuc_quantize.mixed_precision.search import Source, quiet


class Known(OpenedMeasure):
    """Figures by the names of modules."""

    name, exact, exact_held_out, samples = "figure", 1.0, 1.0, 100

    def __init__(self, figures: dict[str, float], held_out: dict[str, float] | None = None) -> None:
        self.figures, self.apart, self.held_out = figures, held_out or {}, 16 if held_out else 0

    def of(self, tpu: Module, *, held_out: bool = False) -> float:
        return self.apart.get(tpu.name, 1.0) if held_out else self.figures[tpu.name]


def forms(count: int) -> list[Form]:
    return [Form(str(place), Module(str(place)), None) for place in range(count)]


def promise(measure: Known, most: int = 40, missing: str = "") -> Promise:
    def compiled(form: Form) -> tuple[Module, int]:
        if form.preparation == missing:
            raise Unsupported("no kernel")
        return form.module, 1000 + int(form.preparation)

    return Promise(compiled, measure, 0.9, 0.9, most)


@pytest.mark.parametrize("first", [0, 1, 7, 30, 31])
def test_the_cheapest_is_found_by_halves(first: int) -> None:
    search = promise(Known({str(place): 0.95 if place >= first else 0.5 for place in range(32)}))
    search.cheapest(forms(32))
    kept = search.kept()
    assert kept is not None
    assert kept.form.preparation == str(first)
    assert len(search.tried) <= 5 + 1 + 2  # halves, and two below


def test_cheaper_ones_next_to_it_are_looked_at() -> None:
    figures = {str(place): 0.95 if place >= 16 or place == 13 else 0.5 for place in range(32)}
    search = promise(Known(figures))
    search.cheapest(forms(32))
    kept = search.kept()
    assert kept is not None
    assert kept.form.preparation == "13"


def test_what_fails_on_samples_held_out_is_not_kept() -> None:
    search = promise(Known({"0": 0.95, "1": 0.95, "2": 0.5}, {"0": 0.8, "1": 0.875}))
    found = search.first_met(iter(forms(3)))
    assert found is not None
    assert (found.form.preparation, found.held_out) == ("1", 0.875)  # 14 of 16 instead of 14.4
    assert [one.form.preparation for one in search.tried] == ["0", "1"]
    assert search.best() is found


def test_no_more_are_tried_than_allowed_and_what_has_no_kernel_does_not_count() -> None:
    search = promise(Known({str(place): 0.1 for place in range(9)}), most=3, missing="1")
    assert search.first_met(iter(forms(9))) is None
    assert [one.form.preparation for one in search.tried] == ["0", "2", "3"]
    assert search.kept() is None
    assert search.best().form.preparation == "0"  # the cheapest of equals


def test_layers_that_cost_little_go_float_first() -> None:
    sources = [Source(4.0, frozenset("a")), Source(3.0, frozenset("b"))]
    assert quiet(sources, ["a", "b"], 9) == [("a",), ("a", "b")]
    assert quiet(sources, ["a", "b"], 9, {"a": 5.0, "b": 1.0}.__getitem__) == [("b",), ("b", "a")]
