"""The processes of checks: every way to end is a result, and no process is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dlbridge_conformance import Status, process, selected
from own_adapter import command

ENDS = """
import os, signal, sys, time
from dlbridge_conformance import Adapter, Level, Role, rule

class Ends(Adapter):
    name = module = "json"
    def version(self):
        return "1"

def ends(id):
    return rule(f"ENDS-{id}", Role.PRODUCER, Level.MUST, "It ends.", "nowhere")

@ends("NEVER")
def never(c):
    c.fed("the last words")
    c.script("import os, time; open('started', 'w').write(str(os.getpid())); time.sleep(60)")

@ends("SILENT")
def silent(c):
    os.closerange(3, 100)
    time.sleep(60)

@ends("BY-SIGNAL")
def by_signal(c):
    c.fed("half a line")
    os.kill(os.getpid(), signal.SIGBUS)

@ends("BY-STATUS")
def by_status(c):
    print("what was printed", flush=True)
    os._exit(3)

@ends("BY-EXIT")
def by_exit(c):
    sys.exit(4)

@ends("BY-NUMBER")
def by_number(c):
    os.kill(os.getpid(), 37)

@ends("WITH-ITS-SERVER")
def with_its_server(c):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)

@ends("AFTERWARDS")
def afterwards(c):
    c.finish = lambda: os.abort()
    c.expect(False, "the elements are wrong")

@ends("LATE")
def late(c):
    c.finish = lambda: os.kill(os.getpid(), signal.SIGSEGV)

@ends("READS")
def reads(c):
    c.got(repr(sys.stdin.read()))

@ends("LEAVES-SOMEBODY")
def leaves_somebody(c):
    if os.fork() == 0:
        time.sleep(60)

@ends("BY-INTERRUPT")
def by_interrupt(c):
    raise KeyboardInterrupt

@ends("WELL")
def well(c):
    print('{"rule": "something else"}')
"""


def is_gone(pid: int) -> bool:
    """Returns whether a process ends within some seconds."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_each_process_end_is_a_result(tmp_path: Path) -> None:
    Path(tmp_path, "mine.py").write_text(ENDS)
    command = [sys.executable, "-m", "dlbridge_conformance", "mine:Ends", "--rule", "ENDS", "-q", "--limit", "5"]
    # faulthandler would write a traceback when a signal kills a process, and that would become evidence.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    done = subprocess.run([*command, "--json", "r.json"], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stderr) == (1, "")
    results = json.loads(Path(tmp_path, "r.json").read_text())["libraries"][0]["results"]
    assert {r["rule"].removeprefix("ENDS-"): (r["status"], r["detail"], r["signal"]) for r in results} == {
        "NEVER": ("hung", "not done after 5 s", None),
        "SILENT": ("hung", "not done after 5 s", None),
        "BY-SIGNAL": ("crashed", "the process died of SIGBUS", "SIGBUS"),
        "BY-STATUS": ("crashed", "the process ended with 3", None),
        "BY-EXIT": ("failed", "SystemExit: 4", None),
        "BY-INTERRUPT": ("failed", "KeyboardInterrupt", None),
        "BY-NUMBER": ("crashed", "the process died of signal 37", "signal 37"),
        "WITH-ITS-SERVER": ("crashed", "the check ended the process of the library: the process died of SIGKILL", "SIGKILL"),
        "AFTERWARDS": (
            "crashed", "the elements are wrong; then, as everything was given back, the process died of SIGABRT", "SIGABRT"),
        "LATE": (
            "crashed", "the check itself passed; then, as everything was given back, the process died of SIGSEGV",
            "SIGSEGV"),
        "READS": ("passed", "", None),
        "LEAVES-SOMEBODY": ("passed", "", None),
        "WELL": ("passed", "", None),
    }  # fmt: skip
    told = {r["rule"].removeprefix("ENDS-"): r["evidence"] for r in results}
    assert told["NEVER"][0] == ["fed", "the last words"]
    assert told["BY-SIGNAL"] == [["fed", "half a line"]]
    assert told["BY-STATUS"] == [["got", "what was printed"]]
    assert told["READS"] == [["got", "''"]]
    # A process that a check started does not outlive it.
    assert is_gone(int(Path(tmp_path, "started").read_text()))


IMPORTS = """
import atexit, os, signal, time
from dlbridge_conformance import Adapter

class Imports(Adapter):
    name = module = "json"

class Raises(Imports):
    def load(self):
        raise OSError("no driver")

class Dies(Imports):
    def load(self):
        os.kill(os.getpid(), signal.SIGILL)

class Hangs(Imports):
    def load(self):
        time.sleep(600)

class HangsAtTheEnd(Imports):
    def load(self):
        atexit.register(time.sleep, 600)
"""


@pytest.fixture
def imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of adapters, for this process and for those of the libraries."""
    Path(tmp_path, "imports.py").write_text(IMPORTS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))


@pytest.mark.parametrize(
    ("library", "status", "detail", "signal"),
    [
        ("Raises", Status.CRASHED, "the library could not be imported: the process ended with 1: OSError: no driver", None),
        ("Dies", Status.CRASHED, "the library could not be imported: the process died of SIGILL", "SIGILL"),
        ("Hangs", Status.HUNG, "the library was not imported after 1 s", None),
    ],
)
def test_library_that_cannot_be_imported_breaks_every_rule(
    imports: None, monkeypatch: pytest.MonkeyPatch, library: str, status: Status, detail: str, signal: str | None
) -> None:
    monkeypatch.setattr(process, "IMPORT_LIMIT", 1.0)
    rules = list(selected(["P-DEVICE"]).values())
    results = list(process.run(f"imports:{library}", rules))
    assert [result.rule for result in results] == [rule.id for rule in rules]
    assert {(result.status, result.detail, result.signal) for result in results} == {(status, detail, signal)}


def test_library_that_cannot_be_imported_does_not_affect_others(imports: None, tmp_path: Path) -> None:
    done = command(tmp_path, "imports:Dies", "dlbridge", "-q", "--rule", "P-DEVICE-TUPLE")
    assert (done.returncode, done.stderr) == (1, "")
    assert "imports:Dies P-DEVICE-TUPLE: crashed: the library could not be imported" in done.stdout
    assert "dlbridge P-DEVICE-TUPLE: passed" in done.stdout


def test_library_that_does_not_end_is_not_waited_for(imports: None) -> None:
    start = time.monotonic()
    assert list(process.run("imports:HangsAtTheEnd", selected(["P-DEVICE-TUPLE"]).values()))
    assert time.monotonic() - start < 60


def test_interrupt_ends_all_checks(tmp_path: Path) -> None:
    Path(tmp_path, "mine.py").write_text(ENDS)
    command = [sys.executable, "-m", "dlbridge_conformance", "mine:Ends", "--rule", "ENDS", "--json", "r.json"]
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs these tests in the background makes them ignore the signal, and their children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    started = Path(tmp_path, "started")
    while not (started.exists() and started.read_text()):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert errors.endswith("interrupted: no report is written\n")
    assert not Path(tmp_path, "r.json").exists()
    assert is_gone(int(started.read_text()))
