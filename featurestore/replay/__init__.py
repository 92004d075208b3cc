"""What a cluster would have done had its pods stood elsewhere: recorded runs replayed, event by event."""
