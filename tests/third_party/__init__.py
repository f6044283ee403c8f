"""Packages of strangers: a chip, an op package, and two that go wrong. What they promise is tested here."""
