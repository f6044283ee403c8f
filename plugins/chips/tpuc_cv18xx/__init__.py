"""Sophgo CV182x, CV181x and CV180x: int8 and bf16, 8 or 2 lanes of 32 KiB, `.cvimodel` files."""
