"""What policies of placement would have made of a recorded history: no clock, no store, nothing written."""
