"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import pirank.metrics

MODULES = ["pirank.significance", "pirank.metrics"] + [
    f"pirank.metrics.{m.name}" for m in pkgutil.iter_modules(pirank.metrics.__path__)
]


@pytest.mark.parametrize("module", MODULES)
def test_examples(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0
