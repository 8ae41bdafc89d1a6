"""Follows a page for newcomers from top to bottom, in an empty folder: python xtask/walkthrough.py PAGE

Runs the commands of its `sh` blocks, and saves its programs under the names on the page. The published crates and
distributions that the page names are those of this repository, released or not.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "target"
#: Before a program: the name of its file comes next, in backticks.
SAVE = re.compile(r"Save this as `([^`]+)`")
END = "END OF THE PROGRAM"


def crates() -> dict[str, str]:
    """The folders of the crates, by name."""
    found = {}
    for manifest in ("Cargo.toml", "adapters/Cargo.toml"):
        metadata = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--manifest-path", manifest]
        output = subprocess.run(metadata, cwd=ROOT, check=True, capture_output=True).stdout
        found.update({one["name"]: str(Path(one["manifest_path"]).parent) for one in json.loads(output)["packages"]})
    return found


def script(page: str, folders: dict[str, str]) -> str:
    """The commands and programs of a page as one script."""

    def by_folder(match: re.Match[str]) -> str:
        """`cargo add`, which looks for a crate on crates.io even if a patch replaces it."""
        folder = folders.get(match[1])
        return match[0] if folder is None else f"cargo add {match[1]} --path '{folder}'"

    lines: list[str] = []
    language = file = name = None
    for line in page.splitlines():
        if line.startswith("```") and language is None:
            language, name, file = line[3:], None, name if line != "```sh" else None
            lines += [f"cat > {file} <<'{END}'"] if file else []
        elif line.startswith("```"):
            lines += [END] if file else []
            language = file = None
        elif file:
            lines.append(line)
        elif language == "sh" and line.startswith("CLONE="):
            lines.append(f"CLONE='{ROOT}'")
        elif language == "sh":
            lines.append(re.sub(r"cargo add (dlbridge[\w-]*)(?:@\S+)?(?!.* --path)", by_folder, line))
        elif language is None and (saved := SAVE.match(line)):
            name = saved[1]
    if name is not None or not any("=" not in line.partition(" ")[0] for line in lines):
        raise SystemExit("the page lacks a command, or a program after `Save this as`")
    return "\n".join(lines) + "\n"


def main(page: str) -> int:
    """Follows the page."""
    folders = crates()
    commands = script((ROOT / page).read_text(encoding="utf-8"), folders)
    with tempfile.TemporaryDirectory(prefix="dlbridge-") as folder:
        settings = Path(folder, ".cargo", "config.toml")
        settings.parent.mkdir()
        patches = [f"{name} = {{ path = '{path}' }}" for name, path in folders.items()]
        settings.write_text("\n".join(["[patch.crates-io]", *patches]), encoding="utf-8")
        constraints = Path(folder, "constraints.txt")
        # A page that installs the clone would refuse a wheel of it as a constraint.
        wheels = [] if '"$CLONE"' in commands else sorted(TARGET.glob("wheels/dlbridge/*.whl"))
        constraints.write_text("".join(f"dlbridge @ {wheel.as_uri()}\n" for wheel in wheels), encoding="utf-8")
        header = subprocess.run([sys.executable, "-c", "import tvm_ffi; print(tvm_ffi.__file__)"], capture_output=True, text=True)
        environment = os.environ | {
            # So that `python3` is new enough.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "CARGO_TARGET_DIR": str(TARGET / "walkthrough"),
            "CARGO_PROFILE_DEV_DEBUG": "0",
            "MATURIN_PEP517_ARGS": "--profile dev",
            "PIP_CONSTRAINT": str(constraints),
            "DLPACK_INCLUDE": str(Path(header.stdout.strip()).parent / "include"),
        }
        return subprocess.run(["sh", "-ex"], input=commands, text=True, cwd=folder, env=environment).returncode


sys.exit(main(*sys.argv[1:]))
