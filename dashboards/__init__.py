"""Grafana dashboards as code. It imports nothing of the product: it reads metrics by name, as anybody outside does.

One dashboard is one short file, one line of `dashboards.table`, and one test of what it shows.
"""
