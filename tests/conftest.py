"""Says at the end of a run which tests were skipped for lack of which data."""

import re
from collections import Counter
from collections.abc import Iterable

import pytest

NEEDS = re.compile(r"needs (?P<what>.+?) \(JUNTO_TEST_DATA\)")


def missing_data(reasons: Iterable[str]) -> Counter[str]:
    """How many skipped tests lacked each file, from the reasons that `data_dir.find` gives."""
    return Counter(found["what"] for reason in reasons if (found := NEEDS.search(reason)))


def skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The reason of a skipped test or module."""
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the missing files, the most wanted first."""
    missing = missing_data(skip_reason(report) for report in terminalreporter.getreports("skipped"))
    if not missing:
        return
    terminalreporter.section(f"{missing.total()} tests skipped for lack of data")
    for what, count in missing.most_common():
        terminalreporter.line(f"{count:5d}  {what}")
    terminalreporter.line("Set JUNTO_TEST_DATA to the folder that holds them.")
