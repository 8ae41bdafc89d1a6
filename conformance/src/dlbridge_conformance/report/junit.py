"""The report as JUnit XML: a suite per library, a case per rule."""

from __future__ import annotations

from xml.etree import ElementTree

from dlbridge_conformance.report.text import account, visible
from dlbridge_conformance.result import Library, Report, Result, Status
from dlbridge_conformance.rule import Level, Rule


def suites(report: Report) -> str:
    """The XML document.

    A broken MUST or SHOULD is a failure, or an error if the process crashed or hung. A rule that does not apply is
    skipped, and so are known failures and a broken MAY, because a MAY is optional.
    """
    root = ElementTree.Element("testsuites", name="dlbridge_conformance")
    rules = {rule.id: rule for rule in report.rules}
    for library in report.libraries:
        root.append(_suite(report, library, rules))
    for counted in ("tests", "failures", "errors", "skipped"):
        root.set(counted, str(sum(int(suite.get(counted, 0)) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', 0)) for suite in root):.3f}")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(report: Report, library: Library, rules: dict[str, Rule]) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=visible(library.name))
    properties = ElementTree.SubElement(suite, "properties")
    versions = [(library.name, library.version), ("dlbridge", report.dlbridge), ("python", report.python)]
    for name, value in [*versions, ("system", report.system)]:
        ElementTree.SubElement(properties, "property", name=visible(name), value=visible(value))
    cases = [_case(report, library, rules[result.rule], result) for result in library.results]
    suite.extend(cases)
    suite.set("tests", str(len(cases)))
    for counted, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(counted, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", f"{sum(result.seconds for result in library.results):.3f}")
    return suite


def _case(report: Report, library: Library, rule: Rule, result: Result) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=visible(f"{library.name}.{rule.role.value}"), name=rule.id)
    case.set("time", f"{result.seconds:.3f}")
    if result.status is not Status.PASSED:
        tag, kind = _outcome(report, rule, result.status)
        outcome = ElementTree.SubElement(case, tag, type=kind, message=visible(result.detail))
        outcome.text = account(report, library.name, rule, result)
    return case


def _outcome(report: Report, rule: Rule, status: Status) -> tuple[str, str]:
    if status is Status.NOT_APPLICABLE:
        return "skipped", status.value
    if rule.id in report.known:
        return "skipped", f"known failure, {rule.level.value} {status.value}"
    if rule.level is Level.MAY:
        return "skipped", f"MAY {status.value}"
    return "failure" if status is Status.FAILED else "error", f"{rule.level.value} {status.value}"
