"""`python -m shuffle_accountant`: the same as the console script."""

from __future__ import annotations

import sys

from shuffle_accountant.cli import main

if __name__ == "__main__":
    sys.exit(main())
