"""Products and functions that no processor's kernels change: as exact as float32, and the same in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc_ops import elementary, factorization
from tpuc_ops.convolution import convolve
from tpuc_ops.products import einsum, matmul, right_factor
from tpuc_ops.window import Window

from tests.families import each

Array = NDArray[Any]
FUNCTIONS = ("exp", "log", "expm1", "log1p", "tanh", "sinh", "cosh", "sin", "cos", "arctan")
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-38, 3.4e38, 88.7, 88.8, -87.4, -103.5, -110, 710, -746]


def uneven(random: np.random.Generator, *shape: int) -> Array:
    """Elements of all sizes, as networks have them whose channels differ."""
    return (random.standard_normal(shape) * np.exp2(random.integers(-8, 8, shape))).astype(np.float32)


def test_products_are_as_exact_as_float32() -> None:
    random = np.random.default_rng(0)
    worst = 0.0
    for trial in range(120):
        m, k, n = (int(one) for one in random.integers(1, 60, 3))
        k *= 20 if trial % 7 == 0 else 1
        a, b = uneven(random, 2, m, k), uneven(random, 2, k, n)
        whole = a.astype(np.float64) @ b
        size = np.abs(a).astype(np.float64) @ np.abs(b)
        for got in (matmul(a, b), matmul(a, right_factor(b))):
            worst = max(worst, float((np.abs(got - whole) / size.max(axis=(-2, -1), keepdims=True)).max()))
    assert worst < 1e-6


def test_sums_do_not_depend_on_their_order() -> None:
    random = np.random.default_rng(1)
    for depth in (3, 40, 300, 3000):
        a, b, order = uneven(random, 9, depth), uneven(random, depth, 11), random.permutation(depth)
        small = [matmul(a[:, order][:, :128], b[order][:128]), matmul(a[:, order[:128]][:, ::-1], b[order[:128]][::-1])]
        assert np.array_equal(*small)


def test_convolutions_are_as_exact_as_float32() -> None:
    random = np.random.default_rng(2)
    for trial in range(60):
        group = int(random.integers(1, 5))
        depth = 1 if trial % 3 == 0 else int(random.integers(1, 20))
        kernel, strides, dilations = ((int(one) for one in random.integers(1, 4, 2)) for _ in range(3))
        window = Window(tuple(kernel), tuple(strides), (1, 0, 2, 1), tuple(dilations))
        x, weight = uneven(random, 2, group * depth, 9, 11), uneven(random, group * 3, depth, *window.kernel)
        got = convolve(x, weight, window, group)
        wide = [one.astype(np.float64) for one in (x, weight)]
        wanted = convolve(*wide, window, group)
        size = convolve(np.abs(wide[0]), np.abs(wide[1]), window, group)
        assert np.abs(got - wanted).max() < 1e-6 * size.max(), (trial, window)


@each("special", [np.nan, np.inf, 3e38])
def test_numbers_without_a_grid(special: float) -> None:
    a, b = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    a[0, 1] = special
    with np.errstate(all="ignore"):
        assert np.array_equal(matmul(a, b), a @ b, equal_nan=True)
    image = a.reshape(1, 2, 3, 1)
    got = convolve(image, np.ones((1, 2, 1, 1), np.float32), Window((1, 1), (1, 1), (0, 0, 0, 0), (1, 1)))
    assert np.array_equal(got[0, 0, :, 0], a[0] + a[1], equal_nan=True)


@each("name", FUNCTIONS)
def test_functions(name: str) -> None:
    random = np.random.default_rng(3)
    function: Callable[[Array], Array] = getattr(elementary, name)
    reference: Callable[[Array], Array] = getattr(np, name)
    spread = random.standard_normal(4000) * np.exp2(random.integers(-30, 8, 4000))
    with np.errstate(all="ignore"):
        for dtype, ulps in ((np.float32, 1.5), (np.float64, 5.0)):
            x = np.concatenate([SPECIAL, spread, random.uniform(-110, 110, 2000)]).astype(dtype)
            got, exact = function(x), reference(x.astype(np.longdouble))
            wanted = exact.astype(dtype)
            finite = np.isfinite(wanted) & np.isfinite(got)
            assert np.array_equal(got[~finite], wanted[~finite], equal_nan=True)
            error = np.abs(got[finite] - exact[finite]) / np.spacing(np.abs(wanted[finite]))
            assert error.max() < ulps, (dtype, x[finite][error.argmax()])


@each("exponent", [0, 1, 2, 3, -1, -2, 0.5, 0.75, -0.75, 1.7, 33, np.inf, np.nan])
def test_powers(exponent: float) -> None:
    x = np.concatenate([[0.0, -0.0, np.inf, np.nan, 1, -1], np.random.default_rng(4).standard_normal(500) * 3])
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.float32).astype(np.longdouble), np.float32(exponent)).astype(np.float32)
        assert np.array_equal(elementary.power(x.astype(np.float32), np.float32(exponent)), wanted, equal_nan=True)


@each("mode", ["bij,bjk->bik", "abc,cd->abd", "ij->ji", "ii->i", "ij,ij->", "a,b->ab", "abc,abd,cd->a"])
def test_einsum(mode: str) -> None:
    random, sizes = np.random.default_rng(5), dict(zip("abcdijk", (2, 3, 4, 5, 6, 6, 7), strict=True))
    operands = [uneven(random, *(sizes[one] for one in term)) for term in mode.split("->", maxsplit=1)[0].split(",")]
    wanted = np.einsum(mode, *(one.astype(np.float64) for one in operands))
    got = einsum(mode, operands)
    assert got.shape == wanted.shape
    assert got == pytest.approx(wanted, rel=1e-5, abs=1e-6 * float(np.abs(wanted).max()))


@each("size", [1, 5, 32, 33, 100])
def test_root_of_inverse(size: int) -> None:
    rows = np.random.default_rng(6).standard_normal((2, size, 2 * size + 3))
    matrix = rows @ rows.transpose(0, 2, 1) / size + 0.05 * np.eye(size)
    root = factorization.root_of_inverse(matrix)
    assert not np.tril(root, -1).any()
    assert root.transpose(0, 2, 1) @ root @ matrix == pytest.approx(
        np.broadcast_to(np.eye(size), matrix.shape), abs=1e-9
    )
