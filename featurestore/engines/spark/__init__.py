"""A full fit on Apache Spark, out of the Parquet tables of `featurestore.exported`.

The same plain functions as in `engines.local`, each where its rows are: attribution and profiles by function,
exposure by node, fits by victim, days of the fold by block. `work` is what runs in the workers; only `learn` and
`reading` know pyspark, and they are imported where it is used.
"""
