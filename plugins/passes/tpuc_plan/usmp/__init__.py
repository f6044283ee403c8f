"""Unified static memory planning for chips of functions, after TVM's USMP, and C sources of its plans."""
