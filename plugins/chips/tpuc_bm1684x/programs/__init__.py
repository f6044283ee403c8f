"""`run.cpp` and `run.py` for deployment folders, using BM1684X's vendor runtime."""
