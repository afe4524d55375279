"""From the options of a command line to changed settings."""

from __future__ import annotations

import contextlib
from typing import Any

import yaml

from pirank.training.recipe import default_loss_options
from pirank.training.settings import Settings


def changed(
    settings: Settings, changes: dict[str, Any], of_model: dict[str, Any], of_loss: dict[str, Any]
) -> Settings:
    """Settings with what the options say; another model or loss drops the options of the one before."""
    for name in ("clip", "patience"):
        if changes.get(name) == 0:
            changes[name] = None
    keep_model = changes.get("model", settings.model) == settings.model
    loss_options = default_loss_options(changes.get("loss", settings.loss), settings)
    return settings.changed(
        **changes,
        model_options={**(settings.model_options if keep_model else {}), **of_model},
        loss_options={**loss_options, **of_loss},
    )


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were on the command line."""
    return {name: value for name, value in options.items() if value is not None}


def widths(text: str) -> list[int]:
    """``"256,128"`` as numbers."""
    try:
        return [int(width) for width in text.split(",") if width.strip()]
    except ValueError:
        raise ValueError(f"--hidden must be widths joined by commas, such as 256,128: got {text!r}") from None


def pairs(option: str, texts: list[str] | None) -> dict[str, Any]:
    """``["name=value", …]`` as a dictionary, the values read as YAML."""
    result = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{option} must be NAME=VALUE, got {text!r}")
        result[name.strip().replace("-", "_")] = value_of(value)
    return result


def value_of(text: str) -> Any:
    """A value as a command line writes it: a number, also as ``3e-3``, which YAML takes for text, or YAML.

    Example:
        >>> value_of("3e-3"), value_of("8"), value_of("[64, 32]"), value_of("null"), value_of("cosine")
        (0.003, 8, [64, 32], None, 'cosine')
    """
    value = yaml.safe_load(text)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return float(value)
    return value
