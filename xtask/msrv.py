"""Checks that no dependency of the published crates wants a newer Rust than they declare.

A dependency that declares no rust-version promises nothing and is passed over.
"""

import json
import subprocess
import sys


def version(text: str) -> tuple[int, ...]:
    parts = [int(part) for part in text.split(".")]
    return tuple(parts + [0] * (3 - len(parts)))


command = ["cargo", "metadata", "--format-version", "1", "--all-features"]
metadata = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
# `publish` is an empty list where a crate is never published, and null where nothing is said.
roots = [id for id in metadata["workspace_members"] if packages[id]["publish"] is None]

checked: set[str] = set()
problems: list[str] = []
for root in roots:
    ours = packages[root]["rust_version"]
    seen: set[str] = set()
    todo = [root]
    while todo:
        id = todo.pop()
        if id in seen:
            continue
        seen.add(id)
        package = packages[id]
        theirs = package["rust_version"]
        if theirs and version(theirs) > version(ours):
            problems.append(
                f"{packages[root]['name']} declares Rust {ours}, but it depends on "
                f"{package['name']} {package['version']}, which wants {theirs}"
            )
        todo += [
            dependency["pkg"]
            for dependency in nodes[id]["deps"]
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
        ]
    checked |= seen - {root}

if problems:
    sys.exit("\n".join(problems))
names = ", ".join(packages[id]["name"] for id in roots)
print(f"{names}: {len(checked)} dependencies, none wants a newer Rust")
