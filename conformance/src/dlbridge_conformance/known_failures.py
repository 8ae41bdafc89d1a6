"""Files of rules that a library is known to break, so that a test stays green until they are fixed."""

from __future__ import annotations

from pathlib import Path

from dlbridge_conformance.registry import all_rules
from dlbridge_conformance.report import visible
from dlbridge_conformance.result import Report, Status
from dlbridge_conformance.rule import Level

HEADING = """\
# Rules of DLPack that {library} does not keep yet: one id on each line, and the finding as a comment.
# The option --write-known-failures of dlbridge-conformance wrote this file. Remove a line when its rule is fixed.
"""


def text_of(file: Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark. Raises ValueError for another encoding."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}") from error


def read(file: Path) -> dict[str, str]:
    """The ids in a file, each with its comment. Raises ValueError for a text that is not the id of a rule."""
    known: dict[str, str] = {}
    for number, line in enumerate(text_of(file).splitlines(), 1):
        id, _, comment = (part.strip() for part in line.partition("#"))
        if id and id not in all_rules():
            raise ValueError(f"{file}, line {number}: {id!r} is not the id of a rule; --list shows all ids")
        if id:
            known[id] = comment
    return known


def write(file: Path, report: Report) -> None:
    """Writes the broken MUST and SHOULD rules of a report's library. Keeps the comments that the file had for them.

    Raises ValueError if the library could not be imported, because then every rule is broken.
    """
    (library,) = report.libraries
    if failure := library.import_failure:
        raise ValueError(f"{file} is not written, because {visible(library.name)} was not checked: {visible(failure)}")
    before = read(file) if file.exists() else {}
    lines = [
        f"{r.rule}  # {before.get(r.rule) or visible(' '.join(r.detail.split())[:100])}".rstrip(" #")
        for r in library.results
        if r.status.is_broken and report.level(r) is not Level.MAY
    ]
    text = HEADING.format(library=visible(library.name)) + "".join(f"{line}\n" for line in lines)
    file.write_text(text, encoding="utf-8")


def kept(report: Report) -> list[str]:
    """The ids of known failures that the report's library keeps now. A rule that does not apply is not kept."""
    passed = {r.rule for library in report.libraries for r in library.results if r.status is Status.PASSED}
    return [id for id in report.known if id in passed]
