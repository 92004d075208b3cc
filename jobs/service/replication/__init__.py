"""What a writer gives to its replicas and takes from them."""
