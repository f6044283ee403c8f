"""`run.cpp` and `run.py` on the vendor's runtime of BM1684X, for deployment folders."""
