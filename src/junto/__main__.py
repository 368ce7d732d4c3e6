"""`python -m junto` is the command line."""

import sys

from junto.cli import main

if __name__ == "__main__":
    sys.exit(main())
