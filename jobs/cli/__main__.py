"""``python -m jobs.cli``: the command without its script, as the supervisor starts its children."""

import sys

from jobs.cli.main import main

sys.exit(main())
