"""The stores: what happened (DuckDB), what was asked for (SQLite), what is published (the snapshot file)."""
