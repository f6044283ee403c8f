"""The table of networks by timing profiles says what no profile times."""

from __future__ import annotations

from pathlib import Path

from benchmarks.profiles import on_host

GOLDENS = Path(__file__).with_name("goldens")


def test_what_the_host_computes_in_the_vendors_files_is_listed() -> None:
    """Both were compiled with float ends, int8 casts its image of 3×32×32; see the folder's programs."""
    assert on_host((GOLDENS / "resnet8_cv183x_int8.cvimodel").read_bytes()) == "quant 3,072"
    assert on_host((GOLDENS / "net20_cv183x_bf16.cvimodel").read_bytes()) == "-"
