"""Edit scripts of ports, and the regressions that their tables report."""

from __future__ import annotations

import copy
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ports import run
from ports.edits import apply, edited
from ports.page import regressions, rendered, slower, worse_table


def test_script_of_diff_makes_the_new_file(tmp_path: Path) -> None:
    chosen = random.Random(1)
    for _ in range(50):
        old, new = ([chosen.choice("abcde") for _ in range(chosen.randrange(1, 20))] for _ in range(2))
        for name, lines in (("old", old), ("new", new)):
            (tmp_path / name).write_text("".join(line + "\n" for line in lines))
        diff = subprocess.run(
            ["diff", "--ed", "old", "new"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        lines, added, removed = edited(list(old), diff.stdout.splitlines())
        assert (lines, len(added) - removed) == (new, len(new) - len(old))


def test_script_edits_several_files_and_names_the_repository(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n3\n")
    (tmp_path / "b").write_text("4\n")
    script = tmp_path / "x.ed"
    script.write_text("*** a\n3d\n1,2c\n{dlbridge}/crates\n.\n*** b\n0a\nfirst\n.\n")
    assert apply(script, tmp_path, Path("/here"), tmp_path) == (2, 3)
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("/here/crates\n", "first\n4\n")


@pytest.mark.parametrize("commands", [["9d"], ["0d"], ["2,1c", "."], ["a line"], ["1p"]])
def test_command_that_does_not_fit_the_file_is_refused(commands: list[str]) -> None:
    with pytest.raises(ValueError, match="a command|outside of a file of 2 lines"):
        edited(["a", "b"], commands)


def test_script_cannot_edit_a_file_outside_of_the_extension(tmp_path: Path) -> None:
    script = tmp_path / "x.ed"
    script.write_text("*** ../other\n1d\n")
    with pytest.raises(ValueError, match="not in the extension"):
        apply(script, tmp_path / "inside", tmp_path, tmp_path)


def test_added_line_of_the_original_file_is_refused(tmp_path: Path) -> None:
    theirs = "let weights = theirs;"
    for folder, first in (("original", theirs), ("edited", "ours, by the script before")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_text(f"{first}\nlet weights = these;\nlast\n")
        (tmp_path / folder / "b").write_text("another file\n")
    script = tmp_path / "x.ed"

    def of(text: str) -> tuple[int, int]:
        script.write_text(text)
        return apply(script, tmp_path / "edited", tmp_path, tmp_path / "original")

    with pytest.raises(ValueError, match="x.ed, line 6: 'let weights = theirs;' is a line of a\n.* line 9: ") as error:
        of(f"*** b\n1d\n*** a\n2a\nlet weights = ours;\n    {theirs}\n.\n0a\n{theirs}\n.\n")
    assert "line 5" not in str(error.value)
    # A line of 20 characters, one that another script of ours added, and a line of another file.
    assert of(f"*** a\n3a\nlet weights = these;\nours, by the script before\n.\n*** b\n0a\n{theirs}\n.\n") == (3, 0)


def test_scripts_are_compared_with_the_files_before_all_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "HERE", tmp_path)
    some = run.Extension("some", {"edited": ["a"]}, tmp_path, tmp_path)
    for version in (run.ORIGINAL, *run.VERSIONS):
        some.source(version).mkdir(parents=True)
        (some.source(version) / "a").write_text("a line that base.ed deletes\n1\n")
    (tmp_path / "some.base.ed").write_text("*** a\n1d\n")
    (tmp_path / "some.ed").write_text("*** a\n1a\na line that base.ed deletes\n.\n")
    with pytest.raises(ValueError, match="some.ed, line 3: 'a line that base.ed deletes'"):
        some.edit()


def a_result() -> dict[str, Any]:
    builds = {f"build {version}": {"seconds": 10.0, "bytes": 1000} for version in ("base", "port")}
    tests = {f"tests {version}": {"passed": 3, "failed": ["t::slow"]} for version in ("base", "port")}
    accepts = {"accepts base": {"list": "TypeError", "torch": "yes"}, "accepts port": {"list": "yes", "torch": "yes"}}
    accepts["accepts alone"] = {"list": "yes", "torch": "TypeError"}
    return {
        "package": "some==1.0", "lines": [2, 1], "unsafe base": 1, "unsafe port": 0, **builds, **tests, **accepts,
        "times": {"base": {"call": 100.0}, "port": {"call": 109.0}},
    }  # fmt: skip


def test_port_of_equal_quality_has_no_regression() -> None:
    assert regressions({"some": a_result()}) == []
    page = rendered({"some": a_result()})
    assert "| some: call | 100 ns | 109 ns | 1.09 |" in page
    assert "| list | `TypeError` → yes |" in page
    assert "| torch | yes |" in page
    assert "| newly accepted | list |" in page
    assert "| accepted only with the package dlbridge | torch |" in page
    assert "| its own tests, dlbridge | 3 passed, 1 failed |" in page


def test_each_regression_is_reported() -> None:
    worse = {
        "| some | the test `t::new` | passes | fails |": lambda r: r["tests port"].update(failed=["t::slow", "t::new"]),
        "| some | its own tests | 3 passed, 1 failed | 2 passed, 1 failed |": lambda r: r["tests port"].update(passed=2),
        "| some | call | 100 ns | 120 ns (1.20 x) |": lambda r: r["times"]["port"].update(call=120.0),
        "| some | `unsafe` | 1 | 2 |": lambda r: r.update({"unsafe port": 2}),
        "| some | argument: torch | yes | wrong |": lambda r: r["accepts port"].update(torch="wrong"),
        "| some | argument: list | TypeError | PanicException |": lambda r: r["accepts port"].update(list="PanicException"),
    }
    for row, change in worse.items():
        result = copy.deepcopy(a_result())
        change(result)
        assert worse_table(regressions({"some": result})).splitlines()[2:] == [row]
        assert row in rendered({"some": result}).splitlines()


def test_larger_wheel_is_on_the_page_and_no_regression() -> None:
    result = a_result()
    result["build port"]["bytes"] = 2000
    assert regressions({"some": result}) == []
    assert "| some | wheel, kB | 1 | 2 (2.00 x) |" in rendered({"some": result})
    assert "Nothing is worse." in rendered({"some": a_result()})


def test_object_that_one_extension_tries_has_an_empty_cell_for_the_others() -> None:
    other = a_result()
    for version in ("base", "port", "alone"):
        other[f"accepts {version}"]["int64"] = "yes"
    assert "| int64 |  | yes |" in rendered({"some": a_result(), "other": other}).splitlines()


@pytest.mark.parametrize("falls", run.VERSIONS)
@pytest.mark.parametrize(("last", "percent", "rounds"), [(1, 50, 6), (4, 50, 9), (4, 1, 6), (5, 3, 10), (99, 5, 20)])
def test_rounds_end_when_no_least_time_of_either_version_falls(
    falls: str, last: int, percent: int, rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(self: object, version: str, what: str) -> dict[str, float]:
        asked.append(version)
        before = min(asked.count(version), last) - 1 if version == falls else 0
        return {"a call that is slower": 100.0 if version == "base" else 200.0, what: 100 * (1 - percent / 100) ** before}

    monkeypatch.setattr(run.Extension, "ask", ask)
    least = run.Extension("some", {}, tmp_path, tmp_path).measure()
    assert asked == ["base", "port"] * rounds
    assert least[falls]["times"] == 100 * (1 - percent / 100) ** (min(rounds, last) - 1)
    assert slower(least["base"], least["port"])[0] == "a call that is slower"
