"""The manifests of an installation as code, for Kustomize and for Helm alike; imports nothing of the product.

``python -m deploy.generate`` writes ``deploy/kustomize`` and ``deploy/chart``; a test compares.
"""
