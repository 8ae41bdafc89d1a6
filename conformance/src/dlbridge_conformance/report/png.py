"""The heat map as PNG. A browser draws the SVG picture, because the picture needs readable text."""

from __future__ import annotations

import tempfile
from pathlib import Path

from dlbridge_conformance.report import svg
from dlbridge_conformance.report.chromium import Chromium
from dlbridge_conformance.result import Report

#: pixels of the PNG for a pixel of the picture: it is shown on fine screens too
SCALE = 2


def write(report: Report, file: Path, browser: str) -> None:
    """Writes the PNG with the browser at this path."""
    document, size = svg.picture(report)
    with tempfile.TemporaryDirectory() as folder, Chromium(browser) as chromium:
        source = Path(folder, "heatmap.svg")
        source.write_text(document, encoding="utf-8")
        chromium.open(source.as_uri(), size.width, size.height, SCALE)
        chromium.screenshot(file)
