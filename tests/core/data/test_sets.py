"""Several data sets as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.errors import UsageError
from tpuc_driver.data import SampleInput, SampleSet, open_samples

from tests.families import each

X = SampleInput("x", (1, 1))


def sets(folder: Path, **sizes: int) -> list[Path]:
    """Files of samples that count on from 0, 100, 200, ..."""
    paths: list[Path] = []
    for place, (name, size) in enumerate(sizes.items()):
        paths.append(folder / f"{name}.npy")
        np.save(paths[-1], np.arange(size, dtype=np.float32).reshape(size, 1, 1) + 100 * place)
    return paths


def numbers(*chosen: SampleSet, input_num: int = 0) -> list[int]:
    return [int(sample["x"].item()) for sample in open_samples([X], chosen, input_num=input_num)]


class TestText:
    @each(
        ("text", "wanted"),
        [
            ("faces", SampleSet(Path("faces"))),
            ("faces/=3", SampleSet(Path("faces"), 3)),
            ("a=b/faces=12", SampleSet(Path("a=b/faces"), 12)),
            ("a=b", SampleSet(Path("a=b"))),
        ],
    )
    def test_weights_stand_at_the_end(self, text: str, wanted: SampleSet) -> None:
        assert SampleSet.of_text(text) == wanted
        assert SampleSet.of_text(wanted.text()) == wanted

    def test_a_path_that_is_there_is_a_path(self, tmp_path: Path) -> None:
        (tmp_path / "faces=3").mkdir()
        assert SampleSet.of_text(str(tmp_path / "faces=3")) == SampleSet(tmp_path / "faces=3")

    @each("weight", ["0", "-2"])
    def test_weights_below_one_are_refused(self, weight: str) -> None:
        with pytest.raises(UsageError, match=rf"^data set 'faces' has weight {weight}; give a whole number from 1"):
            SampleSet.of_text(f"faces={weight}")


class TestSeveral:
    def test_they_are_spread_evenly(self, tmp_path: Path) -> None:
        many, few = sets(tmp_path, many=6, few=2)
        assert numbers(SampleSet(many), SampleSet(few)) == [0, 1, 100, 2, 3, 4, 101, 5]

    def test_weights_are_times(self, tmp_path: Path) -> None:
        many, few = sets(tmp_path, many=6, few=2)
        found = numbers(SampleSet(many), SampleSet(few, 3))
        assert sorted(found) == [0, 1, 2, 3, 4, 5, 100, 100, 100, 101, 101, 101]
        halves = found[:6], found[6:]
        assert [sum(number >= 100 for number in half) for half in halves] == [3, 3]

    def test_the_first_of_each(self, tmp_path: Path) -> None:
        many, few = sets(tmp_path, many=6, few=2)
        assert numbers(SampleSet(many), SampleSet(few), input_num=2) == [0, 100, 1, 101]

    def test_one_is_as_ever(self, tmp_path: Path) -> None:
        (many,) = sets(tmp_path, many=4)
        assert numbers(SampleSet(many)) == [0, 1, 2, 3]
