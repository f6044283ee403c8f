"""Tests of the executor for dask clusters."""
