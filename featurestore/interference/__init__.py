"""Who disturbs whom: the joint fit of each victim, the decision over all pairs, and predictions for the rest.

`victim` says how an engine uses it. Plain arrays: no clock, no database.
"""
