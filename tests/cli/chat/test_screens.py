"""What reaches a terminal and what does not."""

import io

import pytest
from rich.console import Console

from junto.cli.chat.screen import PlainScreen, Screen, shown
from junto.cli.chat.terminal import TerminalScreen
from tests.cli.chat.terminals import ESCAPES

HOSTILE = "a\x1b]0;title\x07b\x9b2Jc\rd"
CLEAN = "a]0;titleb2Jcd"


def terminal(**options: bool) -> tuple[TerminalScreen, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=40, height=8, color_system="standard")
    return TerminalScreen(console, **options), out


def seen(out: io.StringIO) -> str:
    return ESCAPES.sub("", out.getvalue())


def test_control_characters_are_dropped_and_lines_stay() -> None:
    assert shown(HOSTILE + "\n\té") == CLEAN + "\n\té"


@pytest.mark.parametrize("kind", ["terminal", "dumb"])
def test_nothing_that_a_model_or_file_says_steers_a_terminal(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rich_screen, out = terminal()
    screen: Screen = rich_screen if kind == "terminal" else PlainScreen(is_terminal=True)
    screen.begin()
    screen.reasoning(HOSTILE)
    screen.content(f"{HOSTILE}\n\n```\n{HOSTILE}\n")
    screen.end()
    for tell in (screen.say, screen.remark, screen.warn, screen.error):
        tell(HOSTILE)
    written = out.getvalue() + "".join(capsys.readouterr())
    assert "\x1b]" not in written
    assert not {"\x07", "\x9b"} & set(written)
    assert written.count(CLEAN) >= 7


def test_code_is_coloured_and_its_lines_are_never_broken() -> None:
    screen, out = terminal()
    line = f'text = "{"x" * 60}"'
    screen.begin()
    screen.content(f"```python\n{line}\nreturn 1\n```\n")
    screen.end()
    assert line in seen(out)
    assert "\x1b[94mreturn" in out.getvalue()


def test_a_string_over_several_lines_keeps_its_colour() -> None:
    screen, out = terminal()
    screen.begin()
    screen.content('```python\nx = """\nimport no\n"""\nimport os\n```\n')
    screen.end()
    before, after = out.getvalue().split("import no")[0], out.getvalue().split("no")[1]
    assert not before.endswith("\x1b[94m")
    assert "\x1b[94mimport" in after


def test_reasoning_is_dimmed_or_hidden() -> None:
    for hides in (False, True):
        screen, out = terminal(hides_reasoning=hides)
        screen.begin()
        screen.reasoning("Let me\nsee.")
        screen.content("Yes.")
        screen.end()
        assert ("\x1b[2mLet me" in out.getvalue()) is not hides
        assert ("Let me" in seen(out)) is not hides
        assert "Yes." in seen(out)


def test_what_grew_is_gone_before_its_final_form_is_printed() -> None:
    screen, out = terminal()
    screen.begin()
    screen.content("```\nx\n")
    assert seen(out).count("reading…") == 1
    screen.end()


def test_an_answer_of_nothing_leaves_no_line() -> None:
    screen, out = terminal()
    screen.begin()
    screen.end()
    assert seen(out).replace("reading…", "").strip() == ""
