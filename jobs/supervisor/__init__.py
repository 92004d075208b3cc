"""What stays up: the scheduler, the writer, the watches that feed the history, and the processes that serve."""
