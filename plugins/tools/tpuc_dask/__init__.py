"""Run work units on a dask cluster, for `--cluster ADDRESS`."""
