"""Reports of experiments: one HTML file that explains itself, and the same as Markdown, CSV and pictures.

Example:
    >>> table = Table(["loss", "NDCG@10"], [["pirank-ndcg", 0.4231], ["ranknet", 0.4102]], bold={(0, 1)})
    >>> report = Report("PiRank against RankNet", sections=[Section("Results", items=[table])])
    >>> print(to_markdown(report))
    # PiRank against RankNet
    <BLANKLINE>
    ## Results
    <BLANKLINE>
    | loss | NDCG@10 |
    | --- | ---: |
    | pirank-ndcg | **0.4231** |
    | ranknet | 0.4102 |
    <BLANKLINE>
"""

from pirank.experiments.report.bars import win_loss
from pirank.experiments.report.export import to_markdown, write_csv, write_folder, write_svg
from pirank.experiments.report.page import to_html, write_report
from pirank.experiments.report.parts import Cell, Column, Item, Report, Section, Table
from pirank.experiments.report.plots import BarFigure, BarSeries, Figure, HeatMap, LineFigure, Series

__all__ = [
    "BarFigure",
    "BarSeries",
    "Cell",
    "Column",
    "Figure",
    "HeatMap",
    "Item",
    "LineFigure",
    "Report",
    "Section",
    "Series",
    "Table",
    "to_html",
    "to_markdown",
    "win_loss",
    "write_csv",
    "write_folder",
    "write_report",
    "write_svg",
]
