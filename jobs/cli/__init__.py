"""The command ``colocate``: one file a group of commands; `main` turns errors into one line and an exit code."""

from jobs.cli.main import main

__all__ = ["main"]
