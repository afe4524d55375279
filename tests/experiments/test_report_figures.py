"""What the figures draw: axes, gaps, logarithms, single points, bars, colours."""

from __future__ import annotations

import math
import re
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pirank.experiments.report import (
    BarFigure,
    BarSeries,
    HeatMap,
    LineFigure,
    Series,
    bars,
    curves,
    heat,
    lines,
    win_loss,
)
from pirank.experiments.report.figures import to_html
from pirank.experiments.report.palette import SERIES_DARK, SERIES_LIGHT, STEPS, contrast, styles, variables
from pirank.experiments.report.palette import heat as heat_colours
from pirank.experiments.report.scales import fit
from pirank.experiments.report.svg import NARROW, WIDE

values = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False)
positive = st.floats(min_value=1e-9, max_value=1e12)


@given(st.lists(values, min_size=1, max_size=8), st.integers(2, 9))
def test_a_linear_axis_shows_all_values_with_distinct_even_ticks(data, count):
    axis = fit(data, 0.0, 100.0, count=count)
    assert all(-1e-6 <= axis(value) <= 100 + 1e-6 for value in data)
    assert 2 <= len(axis.ticks) <= 2 * count + 2
    steps = [b - a for a, b in pairwise(axis.ticks)]
    assert max(steps) == pytest.approx(min(steps), rel=1e-3)
    assert len(set(axis.labels)) == len(axis.ticks)


@given(st.lists(positive, min_size=1, max_size=8), st.integers(4, 9))
def test_a_logarithmic_axis_shows_all_values_with_ticks_inside(data, count):
    axis = fit(data, 0.0, 100.0, log=True, count=count)
    assert all(-1e-6 <= axis(value) <= 100 + 1e-6 for value in data)
    assert 1 <= len(axis.ticks) <= 2 * count + 2
    assert all(-1e-6 <= axis(tick) <= 100 + 1e-6 for tick in axis.ticks)
    assert len(set(axis.labels)) == len(axis.ticks)


def test_equal_ratios_are_equally_far_apart_on_a_logarithmic_axis():
    axis = fit([1.0, 1e4], 0.0, 400.0, log=True)
    assert [axis(10.0**power) for power in range(5)] == pytest.approx([0, 100, 200, 300, 400])
    assert axis.labels == ("1", "10", "100", "1,000", "10,000")


def test_points_at_or_below_zero_are_left_off_a_logarithmic_axis_and_said_to_be():
    figure = LineFigure("t", "x", "y", [Series("a", [0, 1, 10], [1, -1, 5])], x_log=True, y_log=True)
    drawn, notes = curves.curves(figure)
    assert [(p.x, p.y) for p in drawn[0].points] == [(10.0, 5.0)]
    assert notes == ("2 points at or below zero are not shown on the logarithmic axis.",)
    assert notes[0] in to_html(figure, "f")


def test_missing_values_leave_a_gap():
    figure = LineFigure("t", "x", "y", [Series("a", [0, 1, 2, 3, 4], [1, 2, math.nan, None, 3])])
    drawn, _ = curves.curves(figure)
    assert [[p.x for p in run] for run in drawn[0].runs] == [[0, 1], [4]]
    html = to_html(figure, "f")
    assert "nan" not in html.lower()
    assert html.count("–</td>") == 2


def test_points_are_drawn_in_the_order_of_x():
    drawn, _ = curves.curves(LineFigure("t", "x", "y", [Series("a", [3, 1, 2], [30, 10, 20])]))
    assert [(p.x, p.y) for p in drawn[0].points] == [(1, 10), (2, 20), (3, 30)]


@pytest.mark.parametrize("view", [WIDE, NARROW])
@pytest.mark.parametrize("log", [False, True])
def test_a_single_point_is_a_marker(view, log):
    figure = LineFigure("t", "x", "y", [Series("a", [5], [0.5], [0.4], [0.6])], x_log=log, y_log=log)
    drawing = lines.draw(figure, curves.curves(figure)[0], view)
    assert sum('class="mark s0"' in mark for mark in drawing.marks) == 1
    assert any("whisker" in mark for mark in drawing.marks)
    ((x, ((series, y),)),) = drawing.places
    assert series == 0
    assert 0 < x < view.width
    assert drawing.top <= y <= drawing.bottom


@pytest.mark.parametrize(
    "figure",
    [
        LineFigure("t", "x", "y", []),
        LineFigure("t", "x", "y", [Series("a", [], []), Series("b", [1], [None])]),
        BarFigure("t", "x", [], [BarSeries("a", [])]),
        BarFigure("t", "x", ["a"], [BarSeries("a", [None])]),
        BarFigure("t", "x", ["a"], [BarSeries("a", [0])], stacked=True),
        HeatMap("t", "x", "y", [], [], []),
        HeatMap("t", "x", "y", ["a"], ["b"], [[math.nan]]),
    ],
)
def test_a_figure_with_nothing_in_it_is_still_a_figure(figure):
    html = to_html(figure, "f")
    assert html.count('role="img"') == 2
    assert "nan" not in html.lower()


def test_a_band_runs_between_its_edges():
    figure = LineFigure("t", "x", "y", [Series("a", [0, 1], [5, 5], [0, 0], [10, 10])])
    drawing = lines.draw(figure, curves.curves(figure)[0], WIDE)
    band = next(mark for mark in drawing.marks if "band" in mark)
    heights = {float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", band)}
    assert heights == {drawing.top, drawing.bottom}


def test_long_curves_are_drawn_by_stretches_with_their_extremes():
    size = 16_000
    y = [0.0] * size
    y[1234], y[7777] = 9.0, -9.0
    figure = LineFigure("t", "step", "y", [Series("a", list(range(size)), y)])
    drawn, notes = curves.curves(figure)
    points = drawn[0].points
    assert len(points) == curves.STRETCHES
    assert max(p.high for p in points) == 9.0
    assert min(p.low for p in points) == -9.0
    assert sum(p.y for p in points) == pytest.approx(0.0)
    assert all(p.x == int(p.x) for p in points)
    assert notes[0].startswith("16,000 points are drawn in 160 stretches")


def test_lines_of_a_group_share_colour_and_marker():
    hard, soft, other = styles(["hard", "relaxed", "other"], ["1", "1", None], [False, True, False])
    assert (hard.colour, hard.marker) == (soft.colour, soft.marker) != (other.colour, other.marker)
    assert (hard.dashed, soft.dashed) == (False, True)


def test_many_lines_are_all_told_apart_without_colour_alone():
    many = styles([str(i) for i in range(49)], [None] * 49, [False] * 49)
    assert len({(style.colour, style.marker) for style in many}) == 49
    assert len({style.marker for style in many[:7]}) == 7


@given(st.lists(st.floats(0, 300), min_size=1, max_size=14).map(sorted))
def test_names_at_line_ends_do_not_overlap(wanted):
    places = lines.spread(wanted, 17.0, 20.0, 300.0)
    assert all(b - a >= 17.0 - 1e-6 for a, b in pairwise(places))
    assert places[0] >= 20.0 - 1e-6
    assert places[-1] <= 300.0 + 1e-6


def test_stacked_bars_have_lengths_in_proportion():
    figure = win_loss("t", ["a", "b"], [60, 10], [10, 40], [30, 50], "base")
    drawing = bars.draw(figure, WIDE)
    widths = [
        float(w) + 1
        for mark in drawing.marks
        for w in re.findall(r'<rect class="bar.*?width="([\d.]+)"', mark)
    ]
    assert len(widths) == 6
    assert widths[0] / widths[1] == pytest.approx(6, rel=0.01)
    assert sum(widths[:3]) == pytest.approx(sum(widths[3:]), rel=0.01)
    assert bars.readings(figure)[1] == ("b", [(0, "10 (10.0 %)"), (1, "40 (40.0 %)"), (2, "50 (50.0 %)")])


def test_bars_start_at_zero_and_whiskers_stand_where_the_interval_ends():
    figure = BarFigure("t", "x", ["a", "b"], [BarSeries("s", [2.0, -1.0], [1.0, -2.0], [3.0, 0.0])])
    marks = bars.draw(figure, WIDE).marks
    zero = float(re.search(r'class="zero" d="M([\d.]+)', "".join(marks)).group(1))
    up, down = (re.search(r'x="([\d.]+)".*width="([\d.]+)"', m).groups() for m in marks if "<rect" in m)
    assert float(up[0]) == pytest.approx(zero, abs=0.2)
    assert float(down[0]) + float(down[1]) == pytest.approx(zero, abs=0.2)
    unit = float(up[1]) / 2
    low, high = re.search(r'class="error" d="M([\d.]+) [\d.]+L([\d.]+)', "".join(marks)).groups()
    assert float(low) == pytest.approx(zero + unit, abs=0.3)
    assert float(high) == pytest.approx(zero + 3 * unit, abs=0.3)


def test_heat_runs_from_lowest_to_highest_or_away_from_a_centre():
    plain = HeatMap("t", "x", "y", ["a", "b", "c"], ["r"], [[1.0, 2.0, 3.0]])
    assert [heat.step_of(plain, v) for v in (1.0, 2.0, 3.0)] == [0, STEPS // 2, STEPS - 1]
    away = HeatMap("t", "x", "y", ["a", "b", "c"], ["r"], [[-1.0, 0.0, 4.0]], centre=0.0)
    assert heat.step_of(away, 0.0) == STEPS // 2
    assert heat.step_of(away, 4.0) == STEPS - 1
    assert 0 < heat.step_of(away, -1.0) < STEPS // 2
    level = HeatMap("t", "x", "y", ["a", "b"], ["r"], [[1.0, 1.0]])
    assert heat.step_of(level, 1.0) == STEPS // 2


# How eyes without one kind of cone see linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
EYES = {
    "all cones": np.eye(3),
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "no blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}
# From linear RGB to OKLab, in which equal distances look equally different (Ottosson 2020).
TO_CONES = np.array(
    [[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]],
)
TO_LAB = np.array(
    [[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]],
)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("colours", [SERIES_LIGHT, SERIES_DARK], ids=["light", "dark"])
def test_colours_differ_for_every_kind_of_eye(colours, eyes):
    encoded = np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in colours])
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.transpose(EYES[eyes]), 0, 1)
    lab = np.cbrt(seen @ TO_CONES.T) @ TO_LAB.T
    # A difference of 0.02 is just visible.
    assert min(np.linalg.norm(a - b) for a, b in combinations(lab, 2)) >= 0.09


@pytest.mark.parametrize(("theme", "colours"), [("light", SERIES_LIGHT), ("dark", SERIES_DARK)])
def test_colours_stand_out_from_the_page(theme, colours):
    page = variables(theme)["page"]
    assert all(contrast(colour, page) >= 3.0 for colour in colours)
    assert contrast(variables(theme)["soft"], page) >= 4.5
    for step in range(STEPS):
        for diverging in (False, True):
            assert contrast(*heat_colours(theme, step, diverging)) >= 4.5


def test_the_first_two_colours_carry_text():
    for theme in ("light", "dark"):
        named = variables(theme)
        assert contrast(named["s0"], named["on-mark"]) >= 4.5
        assert contrast(named["s1"], named["on-mark"]) >= 4.5
        assert contrast(named["neutral"], named["ink"]) >= 4.5
