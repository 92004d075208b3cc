"""Host constraints of stream jobs: what a placement configuration means for pods and nodes, or why it cannot be met.

Pure: a job and the nodes of a cluster come in, a plan or the list of all conflicts comes out. What needs a clock, the
exact solver with its deadline, is a callable that is handed in.
"""
