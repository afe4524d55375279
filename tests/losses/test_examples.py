"""The examples in the docstrings run and give what they say."""

import doctest
import importlib
import pkgutil

import pytest

import pirank.losses

MODULES = [f"pirank.losses.{module.name}" for module in pkgutil.iter_modules(pirank.losses.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
