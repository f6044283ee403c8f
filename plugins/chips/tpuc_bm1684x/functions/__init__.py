"""Layers of the vendor's library that run TOP ops on the processor, one file each."""
