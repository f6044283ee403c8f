"""Products of two computed tensors: batches, awkward extents, all that local memory cuts."""

from __future__ import annotations

from tpuc.api import BF16
from tpuc_ops import tpu
from tpuc_testing.kernel_conformance import Sample

from tests.chips.cv18.kernel_values import I8, QDM, U8, halves, stored_bytes

ABSENT = [None, None, None]


def _product(shift: int, **more: bool | float) -> tpu.MatMul:
    return tpu.MatMul(multipliers=(1431655765,), rshifts=(shift,), **QDM, **more)


PRODUCTS = {
    "product": Sample(
        _product(9),
        [stored_bytes(2, 3, 20, 48), stored_bytes(2, 3, 48, 64, seed=1), *ABSENT],
        I8,
        [{"n": 7}, {"k": 1}, {"k": 2, "n": 11}],
    ),
    "product_unsigned": Sample(
        _product(11, do_relu=True, relu_limit=6.0),
        [stored_bytes(1, 5, 300, dtype="uint8"), stored_bytes(1, 300, 33, seed=1, dtype="uint8"), *ABSENT],
        U8,
    ),
    "product_mixed": Sample(
        _product(9, do_relu=True),
        [stored_bytes(1, 9, 64, dtype="uint8"), stored_bytes(1, 64, 7, seed=1), *ABSENT],
        U8,
        [{"n": 4}],
    ),
    "product_primes": Sample(
        _product(9), [stored_bytes(2, 19, 37), stored_bytes(2, 37, 41, seed=1), *ABSENT], I8, [{"c": 32, "n": 5}]
    ),
    "product_wide": Sample(
        _product(12), [stored_bytes(1, 4, 2048), stored_bytes(1, 2048, 640, seed=1), *ABSENT], I8, [{"k": 3, "c": 32}]
    ),
    "product_halves": Sample(
        tpu.MatMul(),
        [halves(2, 3, 20, 48), halves(2, 3, 48, 64, seed=1), *ABSENT],
        BF16,
        [{"n": 7}, {"k": 1}, {"k": 4, "n": 11}],
    ),
    "product_halves_relu": Sample(
        tpu.MatMul(do_relu=True, relu_limit=40.0), [halves(3, 7, 31), halves(3, 31, 5, seed=1), *ABSENT], BF16
    ),
}
