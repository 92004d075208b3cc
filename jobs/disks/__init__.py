"""Disk affinity at work: the state out of files or the snapshot, plans, the scheduler's extender, reservations."""
