"""What a report says: escaping, missing values, winners, the same data in every form, the same bytes every time."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from datetime import datetime, timezone
from html.parser import HTMLParser

import numpy as np
import pytest

from pirank.experiments.report import (
    BarFigure,
    BarSeries,
    Cell,
    Column,
    HeatMap,
    LineFigure,
    Report,
    Section,
    Series,
    Table,
    to_html,
    to_markdown,
    win_loss,
    write_csv,
    write_folder,
    write_report,
    write_svg,
)
from pirank.experiments.report.tables import to_csv

HOSTILE = "</script><script>alert(1)</script>\"'&<b>`|$title${x}"
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Every element of a page, and whether each one is closed."""

    def __init__(self, html: str):
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def everything(name="pirank") -> Report:
    """A report with one of each item, all named ``name``."""
    items = [
        Table(
            [name, Column(name, note=name)],
            [[name, 0.25], [name, Cell(0.5, bold=True, note=name)]],
            name,
            note=name,
        ),
        LineFigure(
            name, name, name, [Series(name, [0, 1], [1, 2]), Series(f"{name} 2", [1], [1])], caption=name
        ),
        win_loss(name, [name], [3], [2], [1], baseline=name, caption=name),
        BarFigure(name, name, [name], [BarSeries(name, [1.0], [0.5], [1.5])], caption=name),
        HeatMap(name, name, name, [name], [name], [[0.5]], caption=name),
    ]
    sections = [Section(name, name, items), Section(name)]
    when = datetime(2026, 3, 9, 14, 5, tzinfo=timezone.utc)
    return Report(name, name, sections, f"pirank compare {name}", {name: name}, when, 75.0)


def test_hostile_names_stay_text():
    page = Page(to_html(everything(HOSTILE)))
    assert not page.open
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == Page(to_html(everything())).elements.count(("script", {})) + 4
    assert "b" not in tags
    assert not [attrs for _, attrs in page.elements if any(key.startswith("on") for key in attrs)]
    # Every name is there to read, unchanged, also in what the script reads.
    assert sum(HOSTILE in text for text in page.texts) > 10
    data = [json.loads(text) for text in page.texts if text.startswith('{"near"')]
    assert len(data) == 4
    assert data[0]["series"][0][0] == HOSTILE


def test_hostile_names_in_markdown_keep_the_table():
    text = to_markdown(everything("a|b\n<script>"))
    rows = [line for line in text.splitlines() if line.startswith("| a")]
    assert rows
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} <= {3, 4, 5}
    assert "| <script>" not in text


def test_the_page_asks_for_nothing_outside_itself():
    html = to_html(everything())
    page = Page(html)
    links = [
        v for _, attrs in page.elements for k, v in attrs.items() if k in ("href", "src", "action", "data")
    ]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "@import" not in html
    assert "url(" not in html
    policy = next(attrs["content"] for tag, attrs in page.elements if tag == "meta" and "http-equiv" in attrs)
    assert policy.startswith("default-src 'none'")


def test_ids_are_unique_and_every_reference_is_there():
    page = Page(to_html(everything()))
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in page.elements:
        for key in ("aria-labelledby", "aria-describedby"):
            assert set((attrs.get(key) or "").split()) <= set(ids)
        if (attrs.get("href") or "").startswith("#"):
            assert attrs["href"][1:] in ids


def test_every_drawing_has_a_name_and_a_description():
    page = Page(to_html(everything()))
    charts = [attrs for tag, attrs in page.elements if tag == "svg" and "chart" in (attrs.get("class") or "")]
    assert len(charts) == 8
    assert all(
        attrs["role"] == "img" and attrs["aria-labelledby"] and attrs["aria-describedby"] for attrs in charts
    )
    assert [tag for tag, _ in page.elements].count("title") == 1 + len(charts)


@pytest.mark.parametrize("missing", [None, math.nan, np.float32("nan")])
def test_missing_values_are_a_dash_everywhere(missing):
    table = Table(["loss", "NDCG"], [["a", missing], ["b", 0.5], ["c", Cell(missing, spread=missing)]])
    html = to_html(Report("r", sections=[Section("s", items=[table])]))
    assert html.count('<td class="number" data-sort="">–</td>') == 2
    assert to_markdown(Report("r", sections=[Section("s", items=[table])])).count("| – |") == 2
    assert to_csv(table) == "loss,NDCG\na,\nb,0.5\nc,\n"
    assert "nan" not in html.partition("<body>")[2].lower()


def test_winners_are_bold_in_every_form():
    table = Table(
        ["loss", "NDCG", "ARP"], [["a", Cell(0.4, 0.01, bold=True), 3.0], ["b", 0.3, 2.0]], bold={(1, 2)}
    )
    report = Report("r", sections=[Section("s", items=[table])])
    assert re.findall(r"<strong>(.*?)</strong>", to_html(report)) == ["0.4000", "2.0000"]
    assert re.findall(r"\*\*(.*?)\*\*", to_markdown(report)) == ["0.4000", "2.0000"]
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert rows[0] == {
        "loss": "a",
        "NDCG": "0.4",
        "NDCG spread": "0.01",
        "NDCG winner": "1",
        "ARP": "3.0",
        "ARP winner": "0",
    }
    assert (rows[1]["NDCG winner"], rows[1]["NDCG spread"], rows[1]["ARP winner"]) == ("0", "", "1")


def test_csv_keeps_full_precision(tmp_path):
    value = 0.1 + 0.2
    path = write_csv(Table(["a", "b"], [[1, value]]), tmp_path / "deep" / "t.csv")
    assert float(path.read_text().splitlines()[1].split(",")[1]) == value


def test_the_same_report_is_the_same_bytes(tmp_path):
    one, two = (write_folder(everything(), tmp_path / name).parent for name in ("one", "two"))
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert len(files) == 2 + 5 + 4
    for file in files:
        assert (one / file).read_bytes() == (two / file).read_bytes()


def test_a_failed_write_leaves_the_old_report_and_no_litter(tmp_path, monkeypatch):
    path = write_report(Report("old"), tmp_path / "report.html")

    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_report(Report("new"), path)
    assert "<h1>old</h1>" in path.read_text(encoding="utf-8")
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_report_is_readable_by_others_as_any_new_file(tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    assert write_report(Report("r"), tmp_path / "report.html").stat().st_mode == plain.stat().st_mode


def test_a_page_of_a_hundred_thousand_points_stays_small(tmp_path):
    x = list(range(100_000))
    series = [Series(str(k), x, [math.sin(k + i / 1000) for i in x]) for k in range(3)]
    report = Report("r", sections=[Section("s", items=[LineFigure("t", "step", "loss", series)])])
    assert len(to_html(report)) < 200_000
    assert len(to_html(Report("empty"))) < 60_000


def test_svg_files_stand_alone(tmp_path):
    for item in everything().sections[0].items[1:]:
        text = write_svg(item, tmp_path / "f.svg").read_text(encoding="utf-8")
        assert text.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
        assert not Page(text).open
        used = set(re.findall(r"var\(--([a-z0-9-]+)", text))
        assert used - set(re.findall(r"--([a-z0-9-]+):", text)) <= {"t"}


def test_wrong_shapes_are_refused_by_name():
    with pytest.raises(ValueError, match="row 0 has 1 values for 2 columns"):
        Table(["a", "b"], [["x"]])
    with pytest.raises(ValueError, match=r"Series 'a': .*'x': 2, 'y': 1"):
        Series("a", [1, 2], [1])
    with pytest.raises(ValueError, match="stacked values must be at least 0, got -1"):
        win_loss("t", ["a"], [1], [0], [-1], "b")
    with pytest.raises(ValueError, match="HeatMap 't'"):
        HeatMap("t", "x", "y", ["a"], ["b"], [[1.0, 2.0]])
