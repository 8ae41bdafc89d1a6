//! The extension modules for the tests, built at once and laid out in `target/site`, which tests have on their path. The
//! crates below the modules are compiled once, which maturin cannot do. `cargo xtask ci` tests the wheels.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::Path;
use std::{env, fs};

use crate::python::{Venv, for_pyo3};
use crate::step::{Result, Step};

/// The features of the core in every build of the tests, so that it is compiled once.
pub(crate) const CORE_FEATURES: &str = "dlbridge/half,dlbridge/microfloat,dlbridge/num-complex,\
    dlbridge/ndarray,dlbridge/image,dlbridge/bytes,dlbridge/memmap2";

/// The folder, from the root.
pub(crate) const FOLDER: &str = "target/site";

/// An extension module.
struct Extension {
    /// The library that Cargo builds.
    library: &'static str,
    /// The folder with the Python code beside it.
    code: Option<&'static str>,
    /// The path of the module.
    module: &'static str,
}

const EXTENSIONS: &[Extension] = &[
    Extension { library: "_core", code: Some("python/dlbridge"), module: "dlbridge/_core" },
    Extension {
        library: "_crafter",
        code: Some("conformance/src/dlbridge_conformance"),
        module: "dlbridge_conformance/_crafter",
    },
    Extension {
        library: "typed_arguments",
        code: Some("tests/arguments/python/typed_arguments"),
        module: "typed_arguments/_native",
    },
    Extension { library: "operators", code: None, module: "operators" },
];

/// The steps that build and lay out the modules.
pub(crate) fn built(root: &Path, venv: &Venv) -> Vec<Step> {
    let task = env::current_exe().expect("the path of this program");
    let build = |name: &str, line: &str| {
        let step = for_pyo3(Step::new(name, line), venv)
            .arg("--target-dir")
            .arg(root.join("target"))
            .needed();
        // As maturin does.
        let flags = "-Clink-arg=-undefined -Clink-arg=dynamic_lookup";
        if cfg!(target_os = "macos") { step.env("RUSTFLAGS", flags) } else { step }
    };
    // `dlbridge` is named for its features, which are those of the tests in Rust.
    let modules = format!(
        "cargo build --package dlbridge --package dlbridge-python --package typed_arguments --package operators \
         --features {CORE_FEATURES}"
    );
    vec![
        build("extension modules", &modules),
        build(
            "the kit's extension module",
            "cargo build --manifest-path conformance/crafter/Cargo.toml",
        ),
        Step::of("target/site", &task, "site").needed(),
    ]
}

/// Copies the modules and their Python code.
pub(crate) fn lay_out(root: &Path) -> Result<()> {
    let site = root.join(FOLDER);
    let _ = fs::remove_dir_all(&site);
    for Extension { library, code, module } in EXTENSIONS {
        let module =
            site.join(module).with_extension(if cfg!(windows) { "pyd" } else { "abi3.so" });
        let folder = module.parent().unwrap_or(&site);
        if let Some(code) = code {
            copy_all(&root.join(code), folder)?;
        }
        let library = root.join("target/debug").join(format!("{DLL_PREFIX}{library}{DLL_SUFFIX}"));
        fs::copy(&library, &module).map_err(|e| format!("{}: {e}", library.display()))?;
    }
    // `importlib.metadata` finds the version of the package there.
    let version = env!("CARGO_PKG_VERSION");
    let metadata = site.join(format!("dlbridge-{version}.dist-info/METADATA"));
    let failed = |e| format!("{}: {e}", metadata.display());
    fs::create_dir_all(metadata.parent().unwrap_or(&site)).map_err(failed)?;
    let text = format!("Metadata-Version: 2.1\nName: dlbridge\nVersion: {version}\n");
    fs::write(&metadata, text).map_err(failed)
}

/// Copies a folder with all that is in it.
fn copy_all(from: &Path, to: &Path) -> Result<()> {
    let failed = |e| format!("{}: {e}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?.path();
        let copy = to.join(entry.file_name().unwrap_or_default());
        if entry.is_dir() {
            copy_all(&entry, &copy)?;
        } else {
            fs::copy(&entry, &copy).map_err(failed)?;
        }
    }
    Ok(())
}
