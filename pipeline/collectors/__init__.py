"""One collector, one short file: a callable's answers in, a batch of columns out."""
