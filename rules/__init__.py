"""What is advised: pure functions from a request and a view to advice.

Nothing here reads a clock, an environment, a file, a random source or the network; everything is handed in as plain
frozen values and plain frozen values come out.
"""
