"""Disk affinity over HTTP: plans for people, the extender for the scheduler, the live disks behind both."""
