"""Room: losses."""
