"""Wrong limits and malformed reports are refused, or shown without an error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dlbridge_conformance import arguments
from own_adapter import kit


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "inf", "1e999", "soon"])
def test_limit_that_is_not_a_finite_number_above_0_is_refused(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parser().parse_args(["numpy", f"--limit={limit}"])
    assert ended.value.code == 2
    assert f"--limit: {limit!r} is not a finite number of seconds above 0\n" in capsys.readouterr().err


def test_report_with_a_lone_surrogate_is_shown(folder: Path) -> None:
    kit(folder, "--json", "r.json")
    text = Path(folder, "r.json").read_text()
    for field in ("name", "version", "detail"):
        text = re.sub(rf'"{field}": "[^"]*', rf'"{field}": "\\ud800', text)
    Path(folder, "r.json").write_text(text)
    done = kit(folder, "--from-json", "r.json", "--summary", "s.md", "--markdown", "m.md", "--html", "h.html", "--junit", "j.xml")
    assert done.returncode == 1, done.stderr
    assert "\\ud800 MINE-FAILS: failed: \\ud800" in done.stdout
    assert "\\ud800" in Path(folder, "s.md").read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "r.json: Expecting value: line 1 column 1 (char 0)"),
        (b"\xff", "r.json is not UTF-8: byte 0 is 0xff"),
        (b"[]", "r.json: not a report of this version of the kit: "),
        (b"[" * 100_000, "r.json: not a report of this version of the kit: "),
    ],
)
def test_file_that_is_not_a_report_is_refused_by_name(folder: Path, content: bytes, message: str) -> None:
    Path(folder, "r.json").write_bytes(content)
    done = kit(folder, "--from-json", "r.json")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(message)


def test_report_with_values_of_other_types_is_refused(folder: Path) -> None:
    kit(folder, "--json", "r.json")
    text = Path(folder, "r.json").read_text()
    for right, wrong in (('"version": "unknown"', '"version": 7'), ('"rule": "MINE-MAY"', '"rule": "P-NIX"')):
        assert right in text
        Path(folder, "r.json").write_text(text.replace(right, wrong))
        done = kit(folder, "--from-json", "r.json")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("r.json: not a report of this version of the kit: ")
