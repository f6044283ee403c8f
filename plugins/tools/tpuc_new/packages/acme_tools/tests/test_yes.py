"""One probability becomes the scores of two classes."""

from __future__ import annotations

import numpy as np
from acme_tools.yes import Yes
from tpuc_eval.protocols import Sample


def test_the_other_class_has_the_rest() -> None:
    scores = Yes()({"p": np.array([[0.25]], np.float32)}, Sample(()))
    assert scores.tolist() == [0.75, 0.25]
