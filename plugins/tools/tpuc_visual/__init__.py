"""`tpuc visual`: the float and the quantized network side by side in a browser."""
