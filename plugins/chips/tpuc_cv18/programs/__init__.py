"""`run.cpp` and `run.py` on the vendor's runtime of CV18xx, for deployment folders."""
