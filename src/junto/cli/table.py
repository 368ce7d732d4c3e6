"""Tables for people, in Markdown, with columns aligned as it has them."""

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], n_left: int = 1) -> str:
    """A Markdown table; the first `n_left` columns are aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = "|".join(_rule(width, i < n_left) for i, width in enumerate(widths))
    return "\n".join(
        [_line(head, widths, n_left), f"|{rule}|", *(_line(row, widths, n_left) for row in rows)]
    )


def _rule(width: int, is_left: bool) -> str:
    return ":" + "-" * (width + 1) if is_left else "-" * (width + 1) + ":"


def _line(cells: Sequence[str], widths: Sequence[int], n_left: int) -> str:
    padded = [
        cell.ljust(width) if i < n_left else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"
