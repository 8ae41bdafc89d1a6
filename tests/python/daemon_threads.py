"""Exits while daemon threads run a body: the exit codes of processes that fork from one that has imported all."""

import processes

#: The number of exits, of which each has three threads.
EXITS = 20

#: Objects whose Python code and memory give up the interpreter's lock, which a thread gets back no more at the exit.
BEGIN = """
import array, gc, mmap, os, sys, threading, time
import dlbridge

DATA = array.array("f", range(6))

def spin():
    for _ in range(200):
        pass

class Slow:
    '''An object whose exports run Python code.'''
    def __dlpack__(self, **options):
        spin()
        return dlbridge.asdlpack(DATA).__dlpack__(**options)
    def __dlpack_device__(self):
        spin()
        return (1, 0)

def only(name):
    '''An object with one protocol, whose export runs Python code.'''
    def export(self):
        spin()
        return getattr(dlbridge.asdlpack(DATA), name)
    return type("Only", (), {name: property(export)})()

INTERFACE, STRUCT, ARROW = map(only, ["__array_interface__", "__array_struct__", "__arrow_c_array__"])

class Owner(bytearray):
    '''Memory whose release runs Python code.'''
    def __del__(self):
        spin()

def mapped():
    '''Memory whose release gives up the lock.'''
    return mmap.mmap(-1, 65536)
"""

EXIT = """
def forever():
    while True:
        body()

gc.freeze()  # A child would visit all objects of the libraries at its end.
codes = []
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        for _ in range(3):
            threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.02)
        break
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    print(*codes)
"""


def check_exits(body: str, setup: str = "") -> None:
    """Fails unless all exits with threads that repeat an expression have the code 0."""
    body = f"\ndef body():\n    {body}\nbody()\n"
    done = processes.run(BEGIN + setup + body + EXIT, EXITS, options=("-W", "ignore"))
    assert (done.returncode, done.stdout.split()) == (0, ["0"] * EXITS), done.stderr[-2000:]
