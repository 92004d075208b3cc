"""What runs: the commands, the service and the schedule; the only place where parts are wired together."""
