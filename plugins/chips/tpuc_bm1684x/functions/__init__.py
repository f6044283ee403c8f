"""Layers of the vendor's library that compute ops of TOP on the processor, one file each."""
