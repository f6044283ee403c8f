"""Work on the workers of a dask cluster, for `--cluster ADDRESS`."""
