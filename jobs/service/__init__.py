"""The serving process: admission webhook, recommendations, metrics."""
