"""Triton kernels of NeuralSort, SoftSort and the losses that are linear in them."""
