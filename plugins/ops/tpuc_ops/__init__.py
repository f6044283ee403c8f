"""Operators bundled with tpuc: the dialects `top`, `tpu`, and `quant`."""
