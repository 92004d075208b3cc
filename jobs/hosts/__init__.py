"""Host constraints at work: jobs and nodes are read, plans stored, pods created and nodes changed."""
