"""The stored history as OpenMetrics: series from before the service was scraped, under the names of its page."""
