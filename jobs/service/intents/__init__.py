"""The intent API ``/v2/projects/...``: its operations, its handlers, and what of it admission looks at."""
