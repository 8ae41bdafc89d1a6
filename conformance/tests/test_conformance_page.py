"""The page of the conformance kit in a real browser, and the heat map that it draws."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import missing
from crafted_report import COMMAND, HOSTILE, RULES, check, crafted_report
from dlbridge_conformance import Level, Library, Report, Result, Role, Rule, Status
from dlbridge_conformance.report import chromium, html, png, svg
from dlbridge_conformance.report.text import visible


@pytest.fixture
def report() -> Report:
    return crafted_report()


def test_page_is_one_file_and_holds_the_evidence(report: Report) -> None:
    page = html.page(report)
    before, _, rest = page.partition('<script type="application/json" id="report">')
    data, _, after = rest.partition("</script>")
    assert not re.search(r"https?://|<link[^>]+href=\"(?!data:)|\bsrc=|@import|url\(", before + after)
    assert (before + after).count("</script>") == 1
    content = json.loads(data)
    assert [topic["role"] for topic in content["topics"]] == ["producer", "consumer", "exchange-api"]
    result = content["libraries"][0]["results"]["P-TWO"]
    assert result["evidence"] == [["fed", visible(HOSTILE)], ["got", "two\nlines"]]
    assert result["command"] == f"{COMMAND} mylib:Adapter --rule P-TWO"


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Chromium]:
    """A headless browser."""
    path = chromium.executable()
    if path is None:
        missing("Chromium is not installed: set CHROMIUM, or install /usr/bin/chromium")
    with chromium.Chromium(path) as browser:
        yield browser


class Page:
    """The page in a browser, with the mouse and the keyboard of a user."""

    def __init__(self, browser: chromium.Chromium, file: Path) -> None:
        self.browser, self.file = browser, file

    def open(self, fragment: str = "", width: int = 1280, height: int = 800, dark: bool = False) -> None:
        """Opens the page again."""
        self.browser.open(self.file.as_uri() + fragment, width, height, dark=dark)

    def __call__(self, expression: str) -> Any:
        """Evaluates a JavaScript expression."""
        return self.browser.evaluate(expression)

    def click(self, element: str) -> None:
        """Clicks the middle of the element that a JavaScript expression finds."""
        left, top, right, bottom = self.box(element)
        place = {"x": (left + right) / 2, "y": (top + bottom) / 2}
        for kind in ("mousePressed", "mouseReleased"):
            self.browser.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def box(self, element: str) -> list[float]:
        """The position of the element that an expression finds: left, top, right, bottom."""
        box: list[float] = self(
            f"(() => {{ const b = ({element}).getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom] }})()"
        )
        return box

    def press(self, *keys: str) -> None:
        """Presses keys in order."""
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            kind = "keyDown" if text else "rawKeyDown"
            code = {"Enter": 13, "Tab": 9, "Escape": 27}.get(key, 0)
            self.browser.call("Input.dispatchKeyEvent", type=kind, key=key, text=text, windowsVirtualKeyCode=code)
            self.browser.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    @property
    def panel(self) -> str | None:
        """The text of the panel, if it is open."""
        text: str | None = self("panel.hidden ? null : panel.innerText")
        return text

    @property
    def shown(self) -> list[str]:
        """The rules that the filter shows."""
        rows = "[...document.querySelectorAll('tbody tr:not([hidden]) th.rule code')]"
        shown: list[str] = self(f"{rows}.map(code => code.innerText)")
        return shown

    @property
    def focused(self) -> str | None:
        """The label of the cell that has the focus."""
        label: str | None = self("document.activeElement.getAttribute('aria-label')")
        return label


def cell(library: int, rule: str) -> str:
    """The JavaScript expression that finds a cell."""
    return f"lines.find(({{rule}}) => rule && rule.id === {rule!r}).cells[{library + 1}]"


def button(text: str) -> str:
    """The JavaScript expression that finds a button."""
    return f"[...document.querySelectorAll('button, summary, label')].find(b => b.textContent.endsWith({text!r}))"


@pytest.fixture
def page(browser: chromium.Chromium, report: Report, tmp_path: Path) -> Iterator[Page]:
    """The opened page. The page may not write to the console, and text from libraries may not run."""
    file = tmp_path / "report.html"
    file.write_text(html.page(report), encoding="utf-8")
    browser.console.clear()
    page = Page(browser, file)
    page.open()
    yield page
    assert page("document.title") == "DLPack conformance"
    assert page("document.images.length") == 0
    assert browser.console == []


def test_page_begins_with_versions_and_counts(page: Page) -> None:
    assert page("document.getElementById('versions').innerText").startswith("dlbridge 0.1.0 · Python 3.")
    counts = page("[...document.querySelectorAll('.count')].map(row => row.innerText.split(/\\s*\\t\\s*/))")
    assert counts == [
        ["passed", "1", "4"],
        ["MUST broken", "2", "0"],
        ["SHOULD broken", "2", "0"],
        ["MAY broken", "1", "0"],
        ["of these crashed or hung", "2", "0"],
        ["not applicable", "0", "2"],
    ]
    assert page.panel is None
    assert page.shown == list(RULES)
    glyphs = page("lines.slice(1).map(({ cells }) => cells[1].innerText).join('')")
    assert glyphs == "✓✕✕!✕∞"


def test_click_shows_the_evidence(page: Page) -> None:
    page.click(cell(0, "C-ONE"))
    panel = page.panel
    assert panel is not None
    for text in ("mylib:Adapter 1.0+cpu", "C-ONE", "What C-ONE says.", "MUST, consumer. dlpack.h 1.3"):
        assert text in panel
    assert "crashed SIGSEGV, 0.5 s" in " ".join(panel.split())
    assert visible(HOSTILE) in panel
    assert "two\nlines" in panel
    assert page("panel.querySelector('.command code').textContent") == f"{COMMAND} mylib:Adapter --rule C-ONE"
    assert page("location.hash") == "#mylib%3AAdapter/C-ONE"
    page.click("panel.querySelectorAll('a.entry')[1]")
    page.browser.wait_until("panel.innerText.startsWith('✕\\n') && panel.innerText.includes('other 2')")
    page("history.back()")
    page.browser.wait_until("location.hash === '#mylib%3AAdapter/C-ONE' && panel.innerText.includes('1.0+cpu')")
    page.click("panel.querySelector('.close')")
    assert page.panel is None
    assert page("location.hash") == ""


def test_copy(page: Page) -> None:
    page.browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page.open("#other/P-TWO")
    page.click("panel.querySelector('.command button')")
    page.browser.wait_until("panel.querySelector('.command button').innerText === 'Copied'")
    assert page("navigator.clipboard.readText()") == f"{COMMAND} other --rule P-TWO"


def test_links_into_the_page(page: Page) -> None:
    page.open("#other/P-TWO")
    assert "What P-TWO says." in (page.panel or "")
    assert page(f"{cell(1, 'P-TWO')}.classList.contains('open')")
    page.open("#/C-TWO")
    assert "What C-TWO says." in (page.panel or "")
    page.open("#mylib:Adapter")
    assert "MUST: 2 broken" in (page.panel or "")
    for unknown in ("#none/P-TWO", "#other/P-NONE", "#%", "#"):
        page.open(unknown)
        assert page.panel is None


def test_keyboard(page: Page) -> None:
    page("search.focus()")
    while page("!table.contains(document.activeElement)"):
        page.press("Tab")
        assert page("document.activeElement !== document.body")
    assert page.focused == "mylib:Adapter, P-ONE, MUST: passed"
    page.press("ArrowDown", "ArrowRight")
    assert page.focused == "other, P-TWO, MUST: passed"
    assert page("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.panel is None
    page.press("Enter")
    assert "What P-TWO says." in (page.panel or "")
    page.press("ArrowDown", "ArrowLeft")
    assert "What P-THREE says." in (page.panel or "")
    assert page("location.hash") == "#mylib%3AAdapter/P-THREE"
    page.press("Escape")
    assert page.panel is None
    assert page.focused == "mylib:Adapter, P-THREE, SHOULD: failed"
    page.press("PageDown", "End")
    assert page.focused == "other, E-ONE, SHOULD: not applicable"
    page.press("PageUp", "Enter")
    assert "other 2" in (page.panel or "")
    assert page("document.querySelectorAll('table [tabindex=\"0\"]').length") == 1


def test_filters(page: Page) -> None:
    page.click(button("SHOULD"))
    assert page.shown == ["P-THREE", "E-ONE"]
    page.click(button("producer"))
    assert page.shown == ["P-THREE"]
    assert page("document.getElementById('shown').innerText") == "1 of 6"
    page.click(button("Clear"))
    page.browser.wait_until("document.getElementById('shown').innerText === '6 rules'")
    page.click(button("crashed"))
    assert page.shown == ["C-ONE"]
    assert page(f"{cell(1, 'C-ONE')}.classList.contains('faded')")
    page.click(button("Libraries"))
    page.click(button("other"))
    assert page.shown == []
    assert page("document.getElementById('nothing').hidden") is False
    page.click(button("crashed"))
    assert page.shown == list(RULES)
    assert page("lines[0].cells.map(c => c && c.hidden)") == [None, True, False]
    page.click(button("Clear"))
    page("search.focus()")
    page.press(*"says three")
    page.browser.wait_until("document.getElementById('shown').innerText === '1 of 6'")
    assert page.shown == ["P-THREE"]


@pytest.mark.parametrize("width", [400, 1000, 1440])
@pytest.mark.parametrize("dark", [False, True])
def test_page_fits_the_window(page: Page, width: int, dark: bool) -> None:
    page.open("#other/P-TWO", width, 800, dark)
    assert page("document.documentElement.scrollWidth") == width
    assert page("document.documentElement.scrollHeight") == 800
    brightness = page("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")
    assert brightness < 50 if dark else brightness == 255
    left, top, right, bottom = page.box(cell(1, "P-TWO"))
    assert page(f"document.elementFromPoint({(left + right) / 2}, {(top + bottom) / 2}) === {cell(1, 'P-TWO')}")


def test_names_stay_visible_when_scrolled(browser: chromium.Chromium, report: Report, tmp_path: Path) -> None:
    rules = [Rule(f"P-{n}", Role.PRODUCER, Level.MUST, "It says.", "dlpack.h 1.3", check) for n in range(400)]
    libraries = [Library(f"library{n}", "1", [Result(r.id, Status.PASSED) for r in rules]) for n in range(20)]
    file = tmp_path / "large.html"
    file.write_text(html.page(Report(rules, libraries, "0.1.0")), encoding="utf-8")
    browser.console.clear()
    page = Page(browser, file)
    page.open("#library19/P-399", 600, 700)
    assert page("map.scrollTop") > 5000
    assert page("map.scrollLeft") > 0
    for name in ("lines[0].cells[20]", "lines[400].cells[0]"):
        left, _, _, bottom = page.box(name)
        assert page(f"{name}.contains(document.elementFromPoint({left + 20}, {bottom - 12}))"), name
    page("window.began = performance.now(), applyFilters(), map.offsetHeight")
    assert page("performance.now() - began") < 1000
    assert browser.console == []


def test_png(browser: chromium.Chromium, report: Report, tmp_path: Path) -> None:
    file = tmp_path / "heatmap.png"
    path = chromium.executable()
    assert path
    png.write(report, file, path)
    data = file.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    _, size = svg.picture(report)
    assert struct.unpack(">II", data[16:24]) == (png.SCALE * size.width, png.SCALE * size.height)
