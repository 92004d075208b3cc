"""Kubernetes wire objects to records: tolerant where the wire is, one line naming the field where it is not.

Unknown fields are ignored; ``null`` stands for an absent list or map. What cannot be read raises
`pipeline.errors.BadInput` for that object alone. No I/O.
"""

from pipeline.objects.nodes import node, node_of
from pipeline.objects.pods import EPOCH, pod, pod_of
from pipeline.objects.workflows import workflow, workflow_of, workflow_texts

__all__ = ["EPOCH", "node", "node_of", "pod", "pod_of", "workflow", "workflow_of", "workflow_texts"]
