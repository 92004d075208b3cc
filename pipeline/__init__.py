"""What comes in: clients of the sources, and the collectors that turn their answers into records.

Nothing here knows what the records are used for: this package imports none of the others.
"""
