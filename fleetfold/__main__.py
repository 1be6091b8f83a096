"""`python -m fleetfold` is the command line."""

from fleetfold.cli import main

main()
