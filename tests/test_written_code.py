"""The code blocks of the README and of the documentation run, page by page, top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A block that cannot run here says why in the line above it: <!-- not run: needs the MSLR files -->
BLOCK = re.compile(
    r"^(?P<why><!-- not run: .+ -->\n)?(?P<indent> *)```python\n(?P<code>.*?)^ *```$", re.M | re.S
)

LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        if block["why"]:
            continue
        line = text[: block.start("code")].count("\n")
        code = re.sub(f"^{block['indent']}", "", block["code"], flags=re.M)
        # Blank lines in front make a traceback name the line of the page.
        exec(compile("\n" * line + code, str(page), "exec"), names)


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
