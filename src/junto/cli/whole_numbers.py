"""Options that are lists of whole numbers: "1,4,16"."""

import typer


def whole_numbers(text: str, option: str, *, least: int) -> list[int]:
    """The numbers of a list, each once, in the order given; BadParameter says what is wrong."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{option} is {text!r}, expected whole numbers as in 1,4"
        ) from None
    if min(numbers) < least:
        raise typer.BadParameter(f"{option} has {min(numbers)}, expected at least {least}")
    return list(dict.fromkeys(numbers))
