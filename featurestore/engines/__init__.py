"""Engines feed the kernels: the same plain functions from DuckDB here, on Spark elsewhere."""
