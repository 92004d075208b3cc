"""Policies of placement, one a file; `table` lists them."""
