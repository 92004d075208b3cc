"""Who ran beside whom, and for what part of the time: one sort and one sweep of each node."""
