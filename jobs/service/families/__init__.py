"""Metric families, a short file a kind; `jobs.service.metrics` lists them by hand."""
