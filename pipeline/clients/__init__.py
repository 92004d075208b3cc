"""Clients of the sources; with the store and jobs the only code that does I/O."""
