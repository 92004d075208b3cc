"""A full fit on Apache Spark, out of the Parquet tables of `featurestore.exported`.

The same plain functions as in `engines.local`, each where its rows are: attribution and profiles by function,
exposure by node, fits by victim, days of the fold by block. `work` is what runs in the workers, `learn` leads them
from the driver. pyspark is imported only where a session is opened, asked or worked in.
"""
