"""Merged tables of one owner and dialect: active tables, and the package that defines each cell."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.errors import PluginConflict, PluginError
from tpuc.registry.groups import Group
from tpuc.registry.offers import Offer, normalize


@dataclass(frozen=True)
class Cell:
    """One entry of a merged table and its origin: `value` is the table's entry."""

    value: Any
    owner: str
    dialect: str
    offer: Offer

    @property
    def package(self) -> str:
        """The package that defines it."""
        return self.offer.package


@dataclass(frozen=True)
class TableName:
    """`<owner>.<dialect>[.<provider>]`."""

    owner: str
    dialect: str
    provider: str | None = None

    @staticmethod
    def parse(text: str) -> TableName | None:
        """The parts of an entry name, None when it does not have that form."""
        parts = text.split(".", 2)
        if len(parts) < 2 or not all(parts):
            return None
        return TableName(*parts)


def show_key(key: Hashable) -> str:
    """A cell's key in a message: `top.Conv int8`."""
    if isinstance(key, tuple):
        return " ".join(str(part) for part in key)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return str(key)


def ranked(offers: Sequence[Offer], prefer: Sequence[str]) -> list[Offer]:
    """The offers of the package that `--prefer` names first; all of them when it names none."""
    for package in prefer:
        chosen = [offer for offer in offers if normalize(offer.package) == normalize(package)]
        if chosen:
            return chosen
    return list(offers)


def conflict(what: str, offers: Sequence[Offer]) -> PluginError:
    """The error for a name or cell that several offers define."""
    packages = sorted({offer.provider for offer in offers})
    if len(packages) == 1:
        places = ", ".join(sorted(offer.path for offer in offers))
        return PluginError(
            f"{what} is offered more than once by {packages[0]}: {places}. Its author has to remove one of them."
        )
    count = {2: "two", 3: "three"}.get(len(packages), str(len(packages)))
    listed = ", ".join(packages)
    return PluginConflict(
        f"{what} is offered by {count} packages: {listed}. Uninstall one, or choose with --prefer PACKAGE."
    )


class MergedTable:
    """The cells of all active tables of one owner and dialect, by key, in order of entry."""

    def __init__(self, group: Group, owner: str, dialect: str, tables: Sequence[tuple[Offer, Any]]) -> None:
        self._group = group
        self._owner, self._dialect = owner, dialect
        self._claims: dict[Hashable, list[Cell]] = {}
        for offer, table in tables:
            for key, value in table.cells.items():
                self._claims.setdefault(key, []).append(Cell(value, owner, dialect, offer))

    def filled(self) -> Sequence[Hashable]:
        """All keys, sorted as shown."""
        return sorted(self._claims, key=show_key)

    def claims(self, key: Hashable) -> Sequence[Cell]:
        """All offers that define a cell."""
        return self._claims.get(key, ())

    def cell(self, key: Hashable, prefer: Sequence[str]) -> Cell | None:
        """The cell of a key; raises PluginConflict when `prefer` does not decide between several."""
        claims = self.claims(key)
        if len(claims) <= 1:
            return claims[0] if claims else None
        chosen = ranked([claim.offer for claim in claims], prefer)
        if len(chosen) > 1:
            raise conflict(f"{self._group.kind} '{show_key(key)}' for {self._owner}", chosen)
        return next(claim for claim in claims if claim.offer is chosen[0])
