"""Consistent regions that run: the operator of one job, and the instance side that starts it."""
