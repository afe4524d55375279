"""Room: sorts."""
