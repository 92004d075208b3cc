"""Runs real work, alone and together, and records it as a cluster would have: for anyone to run again.

``python -m jobs.demo.recorder --out DIR`` runs the sessions that are missing in DIR and then writes the recording.
Everything that decides (plan, layout, records, series) is pure; `session` and `worker` alone touch the machine.
"""
