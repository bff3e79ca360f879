"""Run `python -m qcore` as the qcore command. Floor P6."""

import sys

from qcore.cli import main

if __name__ == "__main__":
    sys.exit(main())
