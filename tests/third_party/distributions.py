"""The distributions in this folder, used without installing them."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from tpuc.registry.offers import Offer

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
TOY_CHIP = FOLDER / "toy_chip"
ACME_OPS = FOLDER / "acme_ops"
BROKEN_PLUGIN = FOLDER / "broken_plugin"
DUP_CHIP = FOLDER / "dup_chip"


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
            offers += [Offer(group, name, project["name"], project["version"], path) for name, path in entries.items()]
    return sorted(offers, key=lambda offer: (offer.group, offer.name, offer.package))
