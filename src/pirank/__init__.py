"""PiRank: learning to rank by optimising the ranking metric itself."""

from pirank.version import __version__

__all__ = ["__version__"]
