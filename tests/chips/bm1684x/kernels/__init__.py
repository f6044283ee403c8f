"""Kernels of BM1684X, and the lowerings that choose them."""
