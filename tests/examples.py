"""How many examples Hypothesis draws for tests that need many: a quarter of them in the quick run."""

from __future__ import annotations

from hypothesis import settings

QUICK_SHARE = 4


def examples(count: int) -> settings:
    """All with `--slow`, where the profile is another one; it is chosen before tests are imported."""
    quick = settings.get_current_profile_name() == "quick"
    return settings(max_examples=count // QUICK_SHARE if quick else count)
