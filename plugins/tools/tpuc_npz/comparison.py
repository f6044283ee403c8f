"""Compare the arrays of two npz files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuc.api import TpucError
from tpuc_driver.api.host import cosine, euclidean, sqnr_db

from tpuc_npz.arrays import Array, Arrays, not_finite, same

_WITHOUT_FIGURES = ("equal", "another shape", "NaN")


@dataclass(frozen=True)
class Compared:
    """The comparison of one array: its result (`equal`, `similar`, `different`, `another shape`, `NaN`), and its
    similarity.

    NaN on either side fails, even at the same position.
    """

    name: str
    verdict: str
    cosine: float = 0.0
    euclidean: float = 0.0
    sqnr_db: float = 0.0

    @property
    def passed(self) -> bool:
        """True if within the tolerance."""
        return self.verdict in ("equal", "similar")

    def cells(self) -> list[str]:
        """Return a table row."""
        if self.verdict in _WITHOUT_FIGURES:
            return [self.name, self.verdict, "", "", ""]
        return [self.name, self.verdict, f"{self.cosine:.6f}", f"{self.euclidean:.6f}", f"{self.sqnr_db:.2f}"]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        figures = {"cosine": self.cosine, "euclidean": self.euclidean, "sqnr_db": self.sqnr_db}
        return {"name": self.name, "verdict": self.verdict} | (figures if self.cells()[2] else {})


def compared(
    target: Arrays,
    reference: Arrays,
    tolerance: Sequence[float],
    excepts: Collection[str],
    places: tuple[Path, Path],
) -> list[Compared]:
    """Compare the arrays that both have, in the order of the reference; raises TpucError if there are none."""
    names = [name for name in reference if name in target and name not in excepts]
    if not names:
        raise TpucError(
            f"{places[0]} and {places[1]} have no array name in common; compare files with the same array names"
        )
    return [_one(name, target[name], reference[name], tolerance) for name in names]


def _one(name: str, target: Array, reference: Array, tolerance: Sequence[float]) -> Compared:
    if target.size != reference.size:
        return Compared(name, "another shape")
    if not_finite(target)["nan"] or not_finite(reference)["nan"]:
        return Compared(name, "NaN")
    target = target.reshape(reference.shape)
    if same(target, reference) or not reference.size:
        return Compared(name, "equal", 1.0, 1.0, float("inf"))
    figures = cosine(target, reference), euclidean(target, reference), sqnr_db(target, reference)
    similar = figures[0] >= tolerance[0] and figures[1] >= tolerance[1]
    return Compared(name, "similar" if similar else "different", *figures)
