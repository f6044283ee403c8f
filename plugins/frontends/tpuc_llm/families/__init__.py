"""Families of decoders, one file each."""
