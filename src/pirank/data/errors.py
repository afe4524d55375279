"""The one error bad data raises, and the account of what ``errors="skip"`` left out."""

from __future__ import annotations

from dataclasses import dataclass, field

_TEXT_SHOWN = 160
_EXAMPLES_KEPT = 20


class DataError(ValueError):
    """Data that cannot be ranked as it stands.

    The message names the file, the line and the line's text where there are any; the same are attributes.

    Args:
        problem: what is wrong and what was expected.
        path: the file.
        line: the line number, from 1.
        text: the text of the line.

    Example:
        >>> str(DataError("feature index 0: indices start at 1", path="a.txt", line=7, text="2 qid:1 0:0.5"))
        "a.txt:7: feature index 0: indices start at 1; the line reads '2 qid:1 0:0.5'"
    """

    def __init__(
        self, problem: str, *, path: str | None = None, line: int | None = None, text: str | None = None
    ) -> None:
        self.problem = problem
        self.path = path
        self.line = line
        self.text = text
        place = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        quoted = "" if text is None else f"; the line reads {_shortened(text)!r}"
        super().__init__(f"{place}{problem}{quoted}")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.problem, self.path, self.line, self.text)


def _rebuild(problem: str, path: str | None, line: int | None, text: str | None) -> DataError:
    return DataError(problem, path=path, line=line, text=text)


def _shortened(text: str) -> str:
    return text if len(text) <= _TEXT_SHOWN else text[: _TEXT_SHOWN - 1] + "…"


@dataclass
class SkippedLines:
    """What a reader with ``errors="skip"`` left out: how many lines, and the first few errors.

    Attributes:
        count: the number of lines or rows left out.
        examples: the first errors, each with file, line number and text.
    """

    count: int = 0
    examples: list[DataError] = field(default_factory=list)

    def add(self, error: DataError) -> None:
        """Count one more line."""
        self.count += 1
        if len(self.examples) < _EXAMPLES_KEPT:
            self.examples.append(error)

    def extend(self, other: SkippedLines) -> None:
        """Count the lines another reader left out."""
        self.count += other.count
        self.examples.extend(other.examples[: _EXAMPLES_KEPT - len(self.examples)])
