"""Code shared by the CV18xx chips: lanes of 32 KiB, int8 and bf16, one TIU, one TDMA engine, `.cvimodel` files."""
