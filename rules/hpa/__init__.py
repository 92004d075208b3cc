"""Hardware platform awareness: what services need of the hardware, which clusters have it, what manifests say of it.

Pure: intents, clusters and manifests come in as values, candidates and manifests go out.
"""
