"""Speed and quality, measured as ratios against a floor in the same run: ``python -m benchmarks``."""
