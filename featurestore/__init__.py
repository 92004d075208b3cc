"""What is known: the stores, the kernels that learn from them, and the snapshot that answers are given from."""
