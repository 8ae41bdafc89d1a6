"""Controls a headless Chromium by the DevTools protocol over a pipe, to make pictures and to test the page."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)  # fmt: skip

#: how long an answer may take, in seconds
LIMIT = 60.0


def executable() -> str | None:
    """The path of the browser in the environment variable ``CHROMIUM``, or of Debian's; None if it is not installed.

    None on Windows, where a process cannot inherit pipes under chosen numbers.
    """
    if not hasattr(os, "posix_spawn"):
        return None
    return shutil.which(os.environ.get("CHROMIUM") or "/usr/bin/chromium")


class Chromium:
    """A browser with one page. Use it in a ``with`` statement."""

    def __init__(self, path: str) -> None:
        self._path = path
        #: the console messages of the page, including script errors
        self.console: list[str] = []
        self._number = 0
        self._session: str | None = None
        self._unread = b""

    def __enter__(self) -> Chromium:
        import fcntl

        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self._writer = os.pipe()
        self._reader, answers = os.pipe()
        # Out of the way of 3 and 4, where the browser looks for them.
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (commands, answers)]
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        pipes = [(os.POSIX_SPAWN_DUP2, end, fd) for end, fd in zip(theirs, (3, 4), strict=True)]
        self._process = os.posix_spawn(
            self._path,
            [self._path, *OPTIONS, f"--user-data-dir={self._profile.name}", "about:blank"],
            os.environ,
            file_actions=[*quiet, *pipes],
        )
        for end in (commands, answers, *theirs):
            os.close(end)
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._session = None
        try:
            self.call("Browser.close")
        except (OSError, EOFError, TimeoutError):
            os.kill(self._process, 9)
        os.waitpid(self._process, 0)
        os.close(self._writer)
        os.close(self._reader)
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol and returns its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + LIMIT
        while (answer := self._receive(end)).get("id") != self._number:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._unread:
            if not select.select([self._reader], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._reader, 1 << 16)
            if not part:
                raise EOFError("the browser has ended")
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        details = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.console.append(str(details["exceptionDetails"].get("exception", details["exceptionDetails"])))
        elif event.get("method") == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(value.get("value")) for value in details["args"]))
        elif event.get("method") == "Log.entryAdded":
            self.console.append(details["entry"]["text"])

    def evaluate(self, expression: str) -> Any:
        """Evaluates a JavaScript expression in the page. Waits for a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait_until(self, expression: str) -> None:
        """Waits until a JavaScript expression is true."""
        end = time.monotonic() + LIMIT
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {expression}")
            time.sleep(0.02)

    def open(self, url: str, width: int, height: int, scale: float = 1, dark: bool = False) -> None:
        """Opens a page in a window of this size, in CSS pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        # Loads an empty page first, because the browser does not load an address that differs only in its fragment.
        self._go("about:blank", "location.href === 'about:blank'")
        self._go(url, "location.href !== 'about:blank' && document.readyState === 'complete'")

    def _go(self, url: str, arrived: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait_until(arrived)

    def screenshot(self, file: Path) -> None:
        """Writes a screenshot of the window as PNG."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
