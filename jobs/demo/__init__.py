"""A recorded cluster, the stand-in that replays it, and the recorder that made it."""
