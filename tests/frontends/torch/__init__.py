"""Tests of the PyTorch front end."""
