"""What can be wrong with an intent, told apart by who has to mend it."""

from pipeline.errors import BadInput, ColocationError


class Undecodable(BadInput):
    """A value is of another type than the field's: the body says nothing that could be judged."""


class Contradiction(ColocationError):
    """Intents and manifest, or two intents, ask for what cannot hold at once."""
