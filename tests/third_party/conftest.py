"""Makes the distributions of this folder importable, and gives a registry that holds them."""

from __future__ import annotations

import pytest
from tpuc.registry import Registry

from tests.third_party.distributions import ACME_OPS, ROOT, TOY_CHIP, make_importable, offers_of

make_importable(TOY_CHIP, ACME_OPS)


@pytest.fixture(scope="session")
def registry() -> Registry:
    """Our own plugins, the toy chip and the acme ops."""
    return Registry(offers=offers_of(ROOT, TOY_CHIP, ACME_OPS))
