"""Packages that go wrong: the sentence names the package, and nothing else stops working."""

from __future__ import annotations

import re

import pytest
from tpuc.errors import PluginConflict, PluginError, UsageError
from tpuc.registry import Registry
from tpuc_testing.packages import make_importable, offers_of

from tests.third_party.distributions import BROKEN_PLUGIN, DUP_CHIP, ROOT, TOY_CHIP

make_importable(BROKEN_PLUGIN, DUP_CHIP)


def test_a_plugin_that_fails_to_import_is_named_with_version_and_cause() -> None:
    registry = Registry(offers=offers_of(ROOT, TOY_CHIP, BROKEN_PLUGIN))
    sentence = (
        "chip 'brokenchip' of broken-plugin 0.2.0 cannot be loaded: ImportError: libbroken.so: cannot open shared "
        "object file. Install what it needs, or uninstall broken-plugin."
    )
    with pytest.raises(PluginError, match=re.escape(sentence)):
        registry.get("tpuc.chips", "brokenchip")


def test_a_broken_plugin_stops_neither_listings_nor_others() -> None:
    registry = Registry(offers=offers_of(ROOT, TOY_CHIP, BROKEN_PLUGIN))
    assert "brokenchip" in registry.names("tpuc.chips")
    assert [row.state for row in registry.describe("tpuc.chips") if row.name == "brokenchip"] == ["available"]
    assert registry.get("tpuc.chips", "toy").description.name == "toy"


def test_one_name_from_two_packages_is_a_conflict_that_prefer_settles() -> None:
    offers = offers_of(ROOT, TOY_CHIP, DUP_CHIP)
    sentence = (
        "chip 'toy' is offered by two packages: dup-chip 0.3.0, toy-chip 0.1.0. Uninstall one, or choose with "
        "--prefer PACKAGE."
    )
    with pytest.raises(PluginConflict, match=re.escape(sentence)):
        Registry(offers=offers).get("tpuc.chips", "toy")
    for package, clock_hz in (("dup-chip", 200_000_000), ("toy-chip", 100_000_000)):
        chip = Registry(prefer=[package], offers=offers).get("tpuc.chips", "toy")
        assert chip.description.clock_hz == clock_hz


def test_an_unknown_chip_is_answered_with_the_installed_ones() -> None:
    with pytest.raises(UsageError, match=r"no chip named 'toi'\. Did you mean 'toy'\? Installed: .*\btoy\."):
        Registry(offers=offers_of(ROOT, TOY_CHIP)).get("tpuc.chips", "toi")
