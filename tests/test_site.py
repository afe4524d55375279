"""The documentation builds without a warning, and the site asks nothing of the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FETCHED = re.compile(r'<(?:script|img|iframe|source)[^>]+src="https?:[^"]*"|<link[^>]+href="https?:[^"]*"')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert pages
    for page in pages:
        assert FETCHED.findall(page.read_text(encoding="utf-8")) == [], page.name


@pytest.mark.slow
def test_formulas_are_drawn_by_the_browser_itself(site):
    for page in site.rglob("*.html"):
        assert 'class="arithmatex"' not in page.read_text(encoding="utf-8"), page.name
    assert "<math " in (site / "reference" / "sorts.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_docstrings_are_translated(site):
    for page in (site / "reference").glob("*.html"):
        text = re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8"))
        assert ".. math::" not in text, page.name
        assert re.findall(r":(?:func|class|meth|mod|math):`", text) == [], page.name
