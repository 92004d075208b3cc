"""Disks out of files and the snapshot: what plans are made from, and how they are told."""
