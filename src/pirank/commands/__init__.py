"""The commands of the ``pirank`` program."""
