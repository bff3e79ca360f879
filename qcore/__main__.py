"""Run `python -m qcore` as the qcore command."""

import sys

from qcore.cli import command

if __name__ == "__main__":
    sys.exit(command())
