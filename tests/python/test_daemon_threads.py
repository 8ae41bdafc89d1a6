"""A daemon thread that is inside dlbridge when Python ends does not end the process."""

import importlib.util
import sys

import pytest
from conftest import missing
from daemon_threads import check_exits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs fork")

MODEL = """
import collections.abc, pickle, tempfile
SHARED, SCOPE, LARGE = dlbridge.share_memory(b"abc"), dlbridge.SharedScope(), bytes(1 << 26)
folder = tempfile.mkdtemp()
class Model(collections.abc.Mapping):
    def __len__(self): return 2
    def __iter__(self): spin(); return iter(["x", "y"])
    def __getitem__(self, name): spin(); return Slow()
def saved(suffix, tensors, **options):
    path = f"{folder}/{threading.get_ident()}{suffix}"
    dlbridge.save(path, tensors, **options)
    return dlbridge.load(path)
"""

BODIES = {
    "asdlpack of dlpack": "dlbridge.asdlpack(Slow())",
    "asdlpack of an interface": "dlbridge.asdlpack(INTERFACE)",
    "asdlpack of a struct": "dlbridge.asdlpack(STRUCT)",
    "asdlpack of Arrow": "dlbridge.asdlpack(ARROW)",
    "chunks": "list(dlbridge.chunks(ARROW))",
    "asdlpack with a copy": "dlbridge.asdlpack(Slow(), copy=True)",
    "from_dlpack": "dlbridge.from_dlpack(Slow())",
    "compat": "__import__('dlbridge.compat.dlpack').asdlpack(Slow())",
    "release of a map": "dlbridge.asdlpack(mapped())",
    "release of a slice": "dlbridge.asdlpack(mapped())[1:]",
    "release of an owner": "dlbridge.asdlpack(Owner(8))",
    "release of a capsule": "dlbridge.asdlpack(Owner(8)).__dlpack__()",
    "release of a memoryview": "memoryview(dlbridge.asdlpack(Owner(8)))",
    "tolist": "dlbridge.asdlpack(Slow()).reshape(2, 3)[0].tolist()",
    "explain": "dlbridge.explain(Slow())",
    "ragged": "dlbridge.Ragged(array.array('q', [0, 2, 6]), Slow())",
    "share_memory": "shared = dlbridge.share_memory(Slow()); shared.close(); shared.unlink()",
    "attach": "dlbridge.attach(SHARED.name).tensor.tolist()",
    "SharedScope": "SCOPE.share_memory(Slow()).tensor",
    "pickle": "pickle.loads(pickle.dumps(dlbridge.asdlpack(Slow())))",
    "copy of 64 MiB": "dlbridge.asdlpack(LARGE, copy=True)",
    "safetensors": "saved('.safetensors', Model())['x'].tolist()",
    "shards": "saved('.safetensors', Model(), max_shard_bytes=24)['x'].tolist()",
    "npz": "saved('.npz', Model())['x'].tolist()",
    "npy": "saved('.npy', Slow()).tolist()",
}


@pytest.mark.parametrize("name", BODIES)
def test_exit(name: str) -> None:
    check_exits(BODIES[name], MODEL)


@pytest.mark.parametrize(
    ("library", "body"),
    [
        ("numpy", "dlbridge.asdlpack(numpy.frombuffer(mapped(), 'u1'))"),
        ("numpy", "dlbridge.asdlpack(mapped()).numpy()"),
        ("numpy", "dlbridge.asdlpack(Slow()).to('numpy')"),
        ("pandas", "dlbridge.asdlpack(pandas.Series(numpy.arange(3.0)))"),
        ("pyarrow", "dlbridge.asdlpack(pyarrow.array([1, 2]))"),
    ],
)
def test_exit_with_a_library(library: str, body: str) -> None:
    if importlib.util.find_spec(library) is None:
        missing(f"{library} is not installed")
    check_exits(body, f"import numpy, {library}")
