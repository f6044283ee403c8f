"""Track by fingerprint which samples a network was calibrated on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tpuc.ir import Module
from tpuc.ir.attributes import StringAttr
from tpuc.registry import Registry

from tpuc_driver.data import CALIBRATED_ON, SampleInput, fingerprints, open_samples


def calibrated_on(module: Module) -> tuple[str, ...]:
    """Return the fingerprints recorded in a module, empty if there are none."""
    attribute = module.attributes.get(CALIBRATED_ON)
    return tuple(attribute.value.split()) if isinstance(attribute, StringAttr) else ()


def seen_among(specs: Sequence[SampleInput], inputs: Sequence[Path], seen: Sequence[str], registry: Registry) -> str:
    """Return a remark if some samples of the input files are among those `seen` in calibration, else an empty
    string.
    """
    known = frozenset(seen)
    sources = [open_samples(specs, path, None, 0, registry) for path in inputs] if known else []
    found = [one for source in sources for one in fingerprints(source)]
    count = sum(one in known for one in found)
    if not count:
        return ""
    which = "all" if count == len(found) else f"{count} of {len(found)}"
    return f"the network was calibrated on {which} samples of the input: expect larger errors on other data"
