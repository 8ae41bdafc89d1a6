"""Prints the addresses of a picture's numbers after each step."""

from crossing import MODEL, cross

steps, _ = cross(640, 480, MODEL)
for library, address, words in steps:
    print(f"{library:13} {address:#014x}   {words}")
