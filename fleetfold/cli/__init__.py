"""The command line: one module for each group of commands; what a command needs is imported when it runs."""

from fleetfold.cli.program import main

__all__ = ["main"]
