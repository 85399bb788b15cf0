"""`python -m partwise.cli`, for where the `partwise` script is not on the path."""

from partwise.cli import main

main()
