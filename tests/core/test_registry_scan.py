"""Installed packages are read from their metadata, once, without importing them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tpuc.registry import Registry, installed_offers
from tpuc.registry.offers import scan_installed


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path; the scan is made anew before and after."""
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    scan_installed.cache_clear()
    yield tmp_path
    scan_installed.cache_clear()


def install(site: Path, package: str, version: str, entry_points: str) -> None:
    folder = site / f"{package.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n", "utf-8")
    (folder / "entry_points.txt").write_text(entry_points, "utf-8")


def test_entry_points_of_a_package_become_offers(site: Path) -> None:
    install(site, "scan-chips", "0.3", "[tpuc.chips]\nscanchip = scan_chips:CHIP\n[other.group]\nx = y:z\n")
    (row,) = [row for row in Registry().describe("tpuc.chips") if row.package == "scan-chips"]
    assert (row.name, row.version, row.path, row.state) == ("scanchip", "0.3", "scan_chips:CHIP", "available")
    assert "scan_chips" not in sys.modules


def test_loading_imports_the_module_and_follows_the_attribute(site: Path) -> None:
    (site / "scan_planners.py").write_text("class Box:\n    class plan:\n        api_version = 1\n", "utf-8")
    install(site, "scan-planners", "1.0", "[tpuc.planners]\nscan = scan_planners:Box.plan\n")
    assert Registry().get("tpuc.planners", "scan").__name__ == "plan"


def test_a_second_copy_further_down_the_path_is_ignored(site: Path, tmp_path: Path) -> None:
    install(site, "scan-twice", "2.0", "[tpuc.chips]\ntwice = scan_twice:CHIP\n")
    other = tmp_path / "other"
    install(other, "Scan_Twice", "1.0", "[tpuc.chips]\ntwice = scan_twice:CHIP\n")
    sys.path.append(str(other))
    assert [row.version for row in Registry().describe("tpuc.chips") if row.name == "twice"] == ["2.0"]


def test_the_scan_is_made_once(site: Path) -> None:
    first = installed_offers()
    install(site, "scan-late", "1.0", "[tpuc.chips]\nlate = scan_late:CHIP\n")
    assert installed_offers() is first
