"""What every chip promises."""

from __future__ import annotations

from tests.chips.cv18.conformance import Cv18Conformance


class TestCv183x(Cv18Conformance):
    chip = "cv183x"
