"""A process for the checks of one library. It reports its progress as lines of JSON."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any

from driver import Driver, NoDevice


def main(order: dict[str, Any]) -> None:
    """Runs the order: a library's checks, the measurements, or a query of the machine."""
    # Hides an installed dlbridge.
    sys.path.insert(0, order["packages"])
    stand_in = None if order["stand_in"] is None else Path(order["stand_in"])
    with Path(order["events"]).open("a", encoding="utf-8") as events:

        def tell(event: dict[str, Any]) -> None:
            """Writes a line and flushes it, so that it survives a crash."""
            events.write(json.dumps(event) + "\n")
            events.flush()

        if order["what"] == "machine":
            machine(stand_in, tell)
        elif order["what"] == "timings":
            import timings

            timings.measure(Driver(stand_in), tell, quick=order["quick"])
        else:
            checks(order["what"], stand_in, tell)
        tell({"ends": True})


def machine(stand_in: Path | None, tell: Any) -> None:
    """Reports the driver's properties."""
    try:
        driver = Driver(stand_in)
    except NoDevice as why:
        tell({"no device": str(why)})
        return
    devices = ", ".join(driver.device_name(device) for device in range(driver.devices))
    kind = "devices" if driver.is_hardware else "devices of the stand-in"
    import dlbridge

    version = f"{driver.version // 1000}.{driver.version % 1000 // 10}"
    tell(
        {
            "machine": {
                kind: devices,
                "CUDA of the driver": version,
                "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
                "dlbridge": dlbridge.__version__,
            }
        }
    )


def checks(name: str, stand_in: Path | None, tell: Any) -> None:
    """Runs the checks of a library."""
    import check
    import copies
    import exchange
    import graphs
    import libraries
    import streams

    assert all((copies, exchange, graphs, streams)), "their import registers the checks"
    own = check.checks_of(name)
    tell({"checks": [{"name": one.name, "sentence": one.sentence} for one in own]})
    driver = Driver(stand_in)
    try:
        library = libraries.made(name, driver)
    except check.Skipped as why:
        tell({"skipped": str(why)})
        return
    if name != "driver":
        tell({"version": library.version()})
    check.run(check.Bench(driver, library), own, tell)
