"""The page for people at ``/``, and the answers that it is made of."""
