"""Room: experiments."""
