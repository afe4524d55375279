"""The site's navigation: the pages that mkdocs.yml names, in its order, then every other page."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Drop the names of pages that do not exist, and append the pages without a name."""
    docs = Path(config.docs_dir)
    named: set[str] = set()
    nav = _existing(config.nav, docs, named)
    others = sorted(page.relative_to(docs).as_posix() for page in docs.rglob("*.md"))
    others = [page for page in others if page not in named]
    config.nav = [*nav, {"More": others}] if others else nav
    return config


def _existing(entries: list[Any], docs: Path, named: set[str]) -> list[Any]:
    kept: list[Any] = []
    for entry in entries:
        ((title, inner),) = entry.items() if isinstance(entry, dict) else [(None, entry)]
        if isinstance(inner, list):
            pages = _existing(inner, docs, named)
            if pages:
                kept.append({title: pages})
        elif (docs / inner).exists():
            named.add(inner)
            kept.append(entry)
    return kept
