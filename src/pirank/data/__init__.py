"""Room: data."""
