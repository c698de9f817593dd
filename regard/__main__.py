"""`python -m regard`, the same as `regard`."""

from regard.cli import main

main()
