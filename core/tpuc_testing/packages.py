"""Packages of plugins that lie in a folder, used without installing them."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from tpuc.registry import Registry
from tpuc.registry.offers import Offer, installed_offers
from tpuc.spelling import american


def make_importable(*folders: Path) -> None:
    """Put the packages of distributions on the import path."""
    for folder in folders:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


def offers_of(*folders: Path) -> list[Offer]:
    """What distributions would offer once they are installed, read from their pyproject.toml."""
    offers: list[Offer] = []
    for folder in folders:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for group, entries in project["entry-points"].items():
            offers += [
                Offer(american(group), name, project["name"], project["version"], path)
                for name, path in entries.items()
            ]
    return sorted(offers, key=lambda offer: (offer.group, offer.name, offer.package))


def registry_with(*folders: str | Path) -> Registry:
    """What is installed, and the packages in these folders."""
    paths = [Path(folder).resolve() for folder in folders]
    make_importable(*paths)
    return Registry(offers=[*installed_offers(), *offers_of(*paths)])
