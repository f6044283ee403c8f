"""Sophgo CV183x: int8 and bf16, 32 lanes of 32 KiB, `.cvimodel` files."""
