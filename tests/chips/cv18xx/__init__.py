"""CV182x, CV181x and CV180x."""

from __future__ import annotations

from tpuc_cv18xx.chip import CV180X, CV181X, CV182X

TARGETS = (CV180X, CV181X, CV182X)
NAMES = [target.name for target in TARGETS]
