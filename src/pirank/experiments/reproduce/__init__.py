"""The experiments of the paper, each with one command, beside the figures it prints."""
