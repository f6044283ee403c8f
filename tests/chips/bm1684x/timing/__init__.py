"""Cycles of commands against the vendor's timing code."""
