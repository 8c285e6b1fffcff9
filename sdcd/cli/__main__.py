"""``python -m sdcd.cli`` is the ``sdcd`` command."""

import sys

from sdcd.cli import main

sys.exit(main())
