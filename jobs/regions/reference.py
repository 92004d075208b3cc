"""The table of docs/consistent-regions.md, from the one that runs: ``python -m jobs.regions.reference``."""

import sys

from rules.regions.document import markdown

if __name__ == "__main__":
    sys.stdout.write(markdown() + "\n")
