"""What is built for a comparison is built without optimization: the C compiler takes most of the time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tpuc_c import model

OPTIMIZING = ("-O2", "-ftree-vectorize")


@pytest.fixture(scope="package", autouse=True)
def unoptimized(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--slow` everything is built as users build it; in the quick run, the program of the example is."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.config.getoption("--slow"):
            patch.setattr(model, "FLAGS", tuple(flag for flag in model.FLAGS if flag not in OPTIMIZING))
        yield
