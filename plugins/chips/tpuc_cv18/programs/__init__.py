"""`run.cpp` and `run.py` for deployment folders, using the vendor's CV18xx runtime."""
