"""``python -m pirank`` is the ``pirank`` program, as ``torchrun -m pirank`` needs it."""

from pirank.cli import main

main()
