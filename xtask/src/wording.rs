//! Checks what the compiler says of two mistakes with typed arguments. Documentation tests compare error codes only.

use std::fs;

use crate::python::Venv;
use crate::{Result, Workplace};

/// A function that must not compile, the error, and the note that says what to write.
struct Mistake {
    code: &'static str,
    error: &'static str,
    note: &'static str,
}

const MISTAKES: [Mistake; 2] = [
    Mistake {
        code: "pub fn missing(x: PyReadonlyTensor<'_, OneOf<(f32, f64)>, 1>) -> usize {
    dispatch!(T in (f32), x => x.len())
}",
        error: "error[E0277]: `dispatch!` names the types `(f32,)`, but the argument is `OneOf<(f32, f64)>`",
        note: "note: name every type of the `OneOf`, in the same order: `dispatch!(T in (f32, f64), x => ...)`",
    },
    Mistake {
        code: "pub fn detached(py: Python<'_>, x: PyReadonlyTensor<'_, f32, 1>) -> f32 {
    py.detach(|| x.iter().sum())
}",
        error: "error[E0277]: an argument cannot be used where Python is not attached, or on another thread",
        note: "note: make a view of it before, and use that: `let view = x.view(); py.detach(|| view.iter().sum())`",
    },
];

/// A page that explains both errors.
const PAGE: &str = "docs/troubleshooting.md";

const USES: &str =
    "use dlbridge_pyo3::{OneOf, PyReadonlyTensor, dispatch};\nuse pyo3::prelude::*;\n";

const MANIFEST: &str = r#"[package]
name = "wording"
edition = "2024"

[dependencies]
dlbridge-pyo3 = { path = "../../crates/dlbridge-pyo3" }
pyo3 = { version = "*", features = ["abi3-py311"] }

[workspace]
"#;

/// Compiles all mistakes as one package, and looks for the errors and notes; the page must have the errors too.
pub(crate) fn check(workplace: &Workplace, venv: &Venv<'_>) -> Result<()> {
    let page = fs::read_to_string(workplace.root.join(PAGE)).map_err(|e| format!("{PAGE}: {e}"))?;
    if let Some(mistake) = MISTAKES.iter().find(|mistake| !page.contains(mistake.error)) {
        return Err(format!("{PAGE} does not have {:?}", mistake.error));
    }
    let folder = workplace.root.join("target/wording");
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::create_dir_all(folder.join("src")).map_err(failed)?;
    let code: Vec<_> = MISTAKES.iter().map(|mistake| mistake.code).collect();
    fs::write(folder.join("Cargo.toml"), MANIFEST).map_err(failed)?;
    fs::write(folder.join("src/lib.rs"), format!("{USES}{}\n", code.join("\n"))).map_err(failed)?;
    fs::copy(workplace.root.join("Cargo.lock"), folder.join("Cargo.lock")).map_err(failed)?;
    let mut command =
        venv.cargo(&["check", "--offline", "--quiet", "--color", "never", "--target-dir"]);
    command.arg(&workplace.target).current_dir(&folder);
    let output = command.output().map_err(|e| format!("cargo: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Err("the mistakes compile".into());
    }
    for text in MISTAKES.iter().flat_map(|mistake| [mistake.error, mistake.note]) {
        if !said.contains(text) {
            return Err(format!("the compiler does not say {text:?}, but:\n{said}"));
        }
    }
    Ok(())
}
