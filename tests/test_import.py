"""`import pirank` is light, and what it offers is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pirank

HEAVY = [
    "pandas",
    "polars",
    "pyarrow",
    "sklearn",
    "lightning_fabric",
    "matplotlib",
    "onnx",
    "tensorboard",
    "typer",
    "rich",
]


def test_import_opens_nothing_heavy():
    code = (
        "import sys, torch; before = set(sys.modules); import pirank; "
        f"print(*(set(sys.modules) - before).intersection({HEAVY}))"
    )
    opened = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert opened.split() == []


@pytest.mark.parametrize("name", pirank.__all__)
def test_every_public_name_is_there(name):
    assert getattr(pirank, name) is not None
    assert name in dir(pirank)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'pyrank'"):
        _ = pirank.pyrank
