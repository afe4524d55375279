"""The report in a real browser: no error, sorts, tells its values, fits a phone, light and dark, prints."""

from __future__ import annotations

import base64
import json
import time

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
    win_loss,
    write_report,
)

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of selenium's connection to the driver

MORE = (Cell(0.75, spread=0.01), Cell(0.5, spread=0.01), 12.5)
RESULTS = Table(
    [
        "loss",
        *(f"NDCG@{k}" for k in (1, 3, 5, 10, 15)),
        Column("ARP", digits=1, lower_is_better=True),
        "MRR",
        "OPA",
        Column("training", digits=1, unit=" s"),
    ],
    [
        ["ranknet", *(Cell(0.3 + k / 100, spread=0.001) for k in range(5)), 12.0, *MORE],
        ["pirank-ndcg", *(Cell(0.4 + k / 100, spread=0.001, bold=True) for k in range(5)), 9.5, *MORE],
        ["approx-ndcg", *[None] * 5, 10.25, *[None] * 3],
        ["lightgbm:features=raw", *(Cell(0.35 + k / 100, spread=0.001) for k in range(5)), 101.0, *MORE],
    ],
    "Results of a comparison with a caption that is much longer than a phone is wide",
)
LINES = LineFigure(
    "Learning curves",
    "step",
    "validation NDCG@10",
    [
        Series(
            "pirank-ndcg",
            [0, 100, 200, 300],
            [0.1, 0.2, 0.3, 0.45],
            [0.05, 0.1, 0.2, 0.4],
            [0.2, 0.3, 0.4, 0.5],
        ),
        Series("</script><img src=x onerror=alert(1)>", [0, 200, 300], [0.2, 0.25, 0.25]),
    ],
)
WINS = win_loss("Queries won", ["pirank-ndcg", "softmax"], [60, 40], [10, 10], [30, 50], "ranknet")
GAINS = BarFigure(
    "Gain", "%", ["a loss whose name is quite long"], [BarSeries("g", [2.0], [-1.0], [5.0])], unit="%"
)
UNNAMED = Table(["", "n"], [["b", 1], ["a", 2]], "A table whose first column has no heading")
GRID = HeatMap(
    "List sizes", "test", "train", ["10", "20"], ["10", "20"], [[0.1, 0.2], [0.3, 0.4]], bold={(1, 1)}
)
REPORT = Report(
    "A comparison",
    "With a `--very-long-option-name-that-does-not-break-anywhere=and-a-value-as-long-as-that` in it.",
    [
        Section("Results", "As **found**.", [RESULTS, LINES]),
        Section("More", items=[WINS, GAINS, GRID, UNNAMED]),
    ],
    "pirank compare data --losses " + "ranknet," * 30,
    {"data": "/a/long/path" * 12, "torch": "2"},
    seconds=61.0,
)


def resize(driver, width, height=900):
    """Give the page a size that no window frame takes from."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def prefer(driver, scheme):
    """Let the system ask for light or dark colours."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return write_report(REPORT, tmp_path_factory.mktemp("report") / "report.html").as_uri()


@pytest.fixture
def page(chromium, address):
    resize(chromium, 1000)
    prefer(chromium, "light")
    chromium.get(address)
    chromium.execute_script("localStorage.clear(); delete document.documentElement.dataset.theme")
    yield chromium
    assert [entry["message"] for entry in chromium.get_log("browser")] == []


def keys(page, *names):
    for name in names:
        for kind in ("keyDown", "keyUp"):
            page.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": kind, "key": name, "code": name})


def point(page, x, y):
    page.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})


def place(page, index):
    """The rectangle on screen of the drawing that is shown in a plot, once the page has come to rest there."""
    return page.execute_async_script(
        "const [index, done] = arguments; const plot = document.querySelectorAll('.plot')[index];"
        "plot.scrollIntoView({block: 'center'});"
        "const svg = [...plot.querySelectorAll('svg.chart')].find(s => getComputedStyle(s).display !== 'none');"
        "requestAnimationFrame(() => requestAnimationFrame(() => {"
        "const r = svg.getBoundingClientRect(); done([r.left, r.top, r.width, r.height])}))",
        index,
    )


def tip(page, index):
    """What the tooltip of a plot says, line by line; None when it is hidden."""
    return page.execute_script(
        "const tip = document.querySelectorAll('.plot')[arguments[0]].querySelector('.tip');"
        "return tip.hidden ? null : [tip.querySelector('b').textContent,"
        " ...[...tip.querySelectorAll('tr')].map(r => [...r.cells].map(c => c.textContent).join(' ').trim())]",
        index,
    )


def column(page, index):
    return page.execute_script(
        "return [...document.querySelector('table.sortable').tBodies[0].rows]"
        ".map(r => r.cells[arguments[0]].textContent)",
        index,
    )


def orders(page):
    return page.execute_script(
        "return [...document.querySelector('table.sortable').tHead.rows[0].cells].map(c => c.ariaSort)"
    )


def test_it_loads_without_error_or_request(page, address):
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    asked = [request["request"]["url"] for request in sent if request["documentURL"] == address]
    assert address in asked
    assert all(url in (address, "data:,") for url in asked)
    assert page.title == "A comparison"
    assert page.execute_script("return document.images.length") == 0


def test_headings_sort_by_click_and_by_keyboard(page):
    heads = page.find_elements("css selector", "table.sortable thead button")[:10]
    assert orders(page) == ["none"] * 10
    heads[1].click()
    assert column(page, 0) == ["pirank-ndcg", "lightgbm:features=raw", "ranknet", "approx-ndcg"]
    assert orders(page) == ["none", "descending", *["none"] * 8]
    heads[1].click()
    # What is missing stays last in both directions.
    assert column(page, 0) == ["ranknet", "lightgbm:features=raw", "pirank-ndcg", "approx-ndcg"]
    heads[6].click()
    # Lower is better: upwards first, and by size, not by text.
    assert column(page, 6) == ["9.5", "10.2", "12.0", "101.0"]
    assert orders(page)[6] == "ascending"
    page.execute_script("arguments[0].focus()", heads[0])
    heads[0].send_keys("\ue007")
    assert column(page, 0) == ["approx-ndcg", "lightgbm:features=raw", "pirank-ndcg", "ranknet"]
    assert orders(page) == ["ascending", *["none"] * 9]


def test_pointing_at_lines_shows_all_values_at_the_nearest_position(page):
    left, top, width, height = place(page, 0)
    assert tip(page, 0) is None
    point(page, left + 2, top + height / 2)
    hostile = LINES.series[1].name
    assert tip(page, 0) == ["step 0", f"{hostile} 0.2000", "pirank-ndcg 0.1000 (0.0500 to 0.2000)"]
    point(page, left + width - 10, top + height / 2)
    assert tip(page, 0) == ["step 300", "pirank-ndcg 0.4500 (0.4000 to 0.5000)", f"{hostile} 0.2500"]
    point(page, 1, 1)
    assert tip(page, 0) is None


def test_pointing_at_bars_and_grids_shows_their_values(page):
    left, top, width, height = place(page, 1)
    point(page, left + width / 2, top + 15)
    assert tip(page, 1) == [
        "pirank-ndcg",
        "better than ranknet 60 (60.0 %)",
        "equal 10 (10.0 %)",
        "worse 30 (30.0 %)",
    ]
    left, top, width, height = place(page, 3)
    point(page, left + 100, top + height - 20)
    assert tip(page, 3) == ["train 20, test 10", "0.3000"]


def test_the_keyboard_reads_values_aloud(page):
    page.execute_script("document.querySelectorAll('.plot')[0].focus({focusVisible: true})")
    assert tip(page, 0)[0] == "step 300"
    keys(page, "ArrowLeft")
    assert tip(page, 0)[0] == "step 200"
    keys(page, "Home")
    assert tip(page, 0)[0] == "step 0"
    keys(page, "ArrowLeft", "ArrowRight")
    assert tip(page, 0) == ["step 100", "pirank-ndcg 0.2000 (0.1000 to 0.3000)"]
    spoken = page.execute_script("return document.getElementById('spoken').textContent")
    assert spoken == "step 100: pirank-ndcg 0.2000 (0.1000 to 0.3000)"
    keys(page, "Escape")
    assert tip(page, 0) is None
    page.execute_script("document.querySelectorAll('.plot')[3].focus({focusVisible: true})")
    keys(page, "Home", "ArrowDown", "ArrowRight")
    assert tip(page, 3) == ["train 20, test 20", "0.4000"]


@pytest.mark.parametrize("width", [320, 400, 619, 700, 1400])
def test_it_fits_the_screen(page, width):
    resize(page, width)
    for plot in range(4):
        left, top, wide, high = place(page, plot)
        assert left >= 0
        assert left + wide <= width
        for share in (0.02, 0.5, 0.98):
            point(page, left + wide * share, top + high / 2)
            assert tip(page, plot) is not None
            edges = page.execute_script(
                "const r = document.querySelectorAll('.plot')[arguments[0]].querySelector('.tip')"
                ".getBoundingClientRect(); return [r.left, r.right]",
                plot,
            )
            assert edges[0] >= 0
            assert edges[1] <= width
    page.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


def test_all_metrics_of_a_comparison_are_seen_at_once_on_a_desktop(page):
    resize(page, 1100)
    inner, outer, stacked = page.execute_script(
        "const box = document.querySelector('.scroll');"
        "return [box.scrollWidth, box.clientWidth, getComputedStyle(box.querySelector('.spread')).display]"
    )
    assert inner <= outer
    assert stacked == "block"


def test_text_in_figures_stays_inside_and_readable_on_a_phone(page):
    resize(page, 400)
    texts = page.execute_script(
        "return [...document.querySelectorAll('.plot svg.narrow text')].map(t => {const r = t.getBoundingClientRect();"
        "return [t.textContent, r.left, r.right, parseFloat(getComputedStyle(t).fontSize) * "
        "t.ownerSVGElement.getBoundingClientRect().width / t.ownerSVGElement.viewBox.baseVal.width]})"
    )
    assert len(texts) > 30
    for text, left, right, size in texts:
        assert left >= 0, text
        assert right <= 400, text
        assert size >= 10, text


def test_wide_tables_scroll_in_their_own_frame_by_keyboard_too(page):
    resize(page, 400)
    page.execute_script("dispatchEvent(new Event('resize'))")
    inner, outer, stop = page.execute_script(
        "const box = document.querySelector('.scroll'); return [box.scrollWidth, box.clientWidth, box.tabIndex]"
    )
    assert inner > outer
    assert stop == 0


def paper(page):
    return page.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_light_and_dark_follow_the_system_until_the_reader_chooses(page):
    assert paper(page) == "rgb(255, 255, 255)"
    prefer(page, "dark")
    assert paper(page) == "rgb(20, 23, 27)"
    ink = page.execute_script("return getComputedStyle(document.querySelector('.chart .tick')).fill")
    assert ink == "rgb(163, 172, 183)"
    page.find_element("id", "theme").click()
    assert paper(page) == "rgb(255, 255, 255)"
    time.sleep(1)  # what a page stores is on its way for a moment, and lost if the page is left before
    for _ in range(5):  # the browser writes it down a moment later
        page.refresh()
        if paper(page) == "rgb(255, 255, 255)":
            break
        time.sleep(0.5)
    assert paper(page) == "rgb(255, 255, 255)"
    assert page.find_element("id", "theme").get_attribute("aria-label") == "Dark colours"


def test_every_figure_has_its_name_in_the_accessibility_tree(page):
    nodes = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    named = {
        n["name"]["value"]
        for n in nodes
        if n.get("role", {}).get("value") in ("image", "img") and "name" in n
    }
    assert {"Learning curves", "Queries won", "Gain", "List sizes"} <= named
    tables = {n["name"]["value"] for n in nodes if n.get("role", {}).get("value") == "table" and "name" in n}
    assert {RESULTS.caption, UNNAMED.caption} <= tables
    buttons = [
        n["name"]["value"] for n in nodes if n.get("role", {}).get("value") == "button" and "name" in n
    ]
    assert all(buttons)
    assert "Name" in buttons


def test_it_prints_in_light_colours(page):
    prefer(page, "dark")
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    assert (
        page.execute_script("return getComputedStyle(document.documentElement).getPropertyValue('--page')")
        == "#ffffff"
    )
    pdf = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert len(base64.b64decode(pdf)) > 10_000
