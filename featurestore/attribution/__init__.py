"""Which pod and node an activation ran on, and what it used there, from what the cluster says."""
