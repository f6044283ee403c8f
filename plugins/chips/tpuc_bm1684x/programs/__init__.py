"""`run.cpp` and `run.py` on BM1684X's vendor runtime, for deployment folders."""
