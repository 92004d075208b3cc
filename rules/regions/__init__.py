"""Consistent regions: parts of a stream job whose processing elements (PEs) checkpoint and reset together.

Pure: (region, event, now) -> (region, notification, timer). Who runs it keeps the resource, the clock and the PEs.
"""
