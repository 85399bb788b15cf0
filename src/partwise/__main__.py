"""``python -m partwise``: the command line, where the folder of scripts is not on the path."""

from partwise.cli import main

main()
