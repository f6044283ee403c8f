"""What every chip promises."""

from __future__ import annotations

from tests.chips.cv18.conformance import Cv18Conformance


class TestCv182x(Cv18Conformance):
    chip = "cv182x"


class TestCv181x(Cv18Conformance):
    chip = "cv181x"


class TestCv180x(Cv18Conformance):
    chip = "cv180x"
