//! `cargo xtask seeded-faults`: whether the conformance kit finds faults that are made on purpose in dlbridge, one at
//! a time. A kit that finds nothing proves nothing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::python::Venv;
use crate::{Result, Workplace, pins, process};

/// The conformance kit: a distribution of Python.
pub(crate) const KIT: &str = "conformance";

/// A fault: a piece of a file, and what it is replaced with.
struct Fault {
    what: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

const fn fault(
    what: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
) -> Fault {
    Fault { what, file, from, to }
}

const IMPORT: &str = "crates/dlbridge/src/tensor/raw/import.rs";
const EXPORT: &str = "crates/dlbridge/src/tensor/raw/export.rs";
const UNDESCRIBED: &str = "crates/dlbridge/src/block/undescribed.rs";
const DRAFT: &str = "crates/dlbridge/src/block/draft.rs";
const CAPSULE: &str = "crates/dlbridge-pyo3/src/capsule.rs";
const DLPACK: &str = "crates/dlbridge-pyo3/src/protocol/dlpack_export.rs";
const TABLE: &str = "crates/dlbridge-pyo3/src/protocol/exchange_table.rs";
const TENSOR: &str = "crates/dlbridge-pyo3/src/class/methods.rs";

/// Where a tensor that was lent gets its description.
const LENT: &str =
    "        return unsafe { Draft::new(owner, 0).finish_with_dims(description, marks) };";

const FAULTS: &[Fault] = &[
    fault(
        "what is lent forgets that it is read-only",
        EXPORT,
        "    managed.set_read_only();\n",
        "",
    ),
    fault(
        "the deleter of a producer is called twice",
        IMPORT,
        "        unsafe { M::delete(self.0.as_ptr()) }",
        "        unsafe {\n            M::delete(self.0.as_ptr());\n            M::delete(self.0.as_ptr());\n        }",
    ),
    fault(
        "the deleter of a producer is never called",
        IMPORT,
        "        unsafe { M::delete(self.0.as_ptr()) }",
        "        let _ = M::delete;",
    ),
    fault(
        "a tensor of another major version is not freed",
        IMPORT,
        "        drop(Foreign(pointer));\n",
        "",
    ),
    fault(
        "another major version is taken for ours",
        IMPORT,
        "if version.major != DLPACK_MAJOR_VERSION {",
        "if version.major == 99 {",
    ),
    fault(
        "a shape that is NULL is read",
        IMPORT,
        "if ndim > 0 && tensor.shape.is_null() {",
        "if ndim > 64 && tensor.shape.is_null() {",
    ),
    fault(
        "strides that are NULL are those of nothing",
        IMPORT,
        "        false => draft.set_shape((0..ndim).map(extent)),",
        "        false => draft.set_axes((0..ndim).map(|axis| (extent(axis), 0))),",
    ),
    fault(
        "the byte offset of a producer is forgotten",
        IMPORT,
        "        byte_offset: tensor.byte_offset,",
        "        byte_offset: 0,",
    ),
    fault(
        "the flags of a producer are forgotten",
        IMPORT,
        "unsafe { adopt(Foreign(pointer), &tensor, flags) }",
        "unsafe { adopt(Foreign(pointer), &tensor, flags & 4) }",
    ),
    fault(
        "strides go out as NULL",
        EXPORT,
        LENT,
        "        let description = dlbridge_sys::DLTensor { strides: ptr::null_mut(), ..description };
        return unsafe { Draft::new(owner, 0).finish_with_dims(description, marks) };",
    ),
    fault(
        "shape and strides go out in reverse",
        EXPORT,
        LENT,
        "        let (shape, strides) = (description.strides, description.shape);
        let description = dlbridge_sys::DLTensor { shape, strides, ..description };
        return unsafe { Draft::new(owner, 0).finish_with_dims(description, marks) };",
    ),
    fault(
        "data without elements has an address",
        UNDESCRIBED,
        "            0 => (ptr::null_mut(), 0),",
        "            0 => (ptr::without_provenance_mut(64), 0),",
    ),
    fault(
        "the struct says another version",
        DRAFT,
        "            version: DLPackVersion::CURRENT,",
        "            version: DLPackVersion { major: 2, minor: 0 },",
    ),
    fault(
        "a capsule that nobody takes frees nothing",
        CAPSULE,
        "            if is_unused {",
        "            if is_unused && py.version_info().major == 2 {",
    ),
    fault(
        "the destructor of a capsule frees what was taken",
        CAPSULE,
        "    if name == used.as_ptr() {\n        return;",
        "    if name != unused.as_ptr() {\n        delete(unsafe { ffi::PyCapsule_GetPointer(capsule, name) });\n        let _ = used;\n        return;",
    ),
    fault(
        "a capsule that was taken keeps its name",
        CAPSULE,
        "    match unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), to.as_ptr()) } {",
        "    let _ = to;\n    match unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), from.as_ptr()) } {",
    ),
    fault(
        "the destructor of a capsule loses a pending exception",
        "crates/dlbridge-pyo3/src/pending.rs",
        "    unsafe { ffi::PyErr_Restore(kind, value, traceback) };\n",
        "    let _ = (kind, value, traceback);\n",
    ),
    fault(
        "max_version is not looked at",
        DLPACK,
        ".transpose()?.is_some_and(|v| v >= 1);",
        ".transpose()?.is_some_and(|v| v >= 99);",
    ),
    fault(
        "versioned capsules are given to everybody",
        DLPACK,
        ".transpose()?.is_some_and(|v| v >= 1);",
        ".transpose()?.is_none_or(|v| v >= 0);",
    ),
    fault(
        "copy=True does not copy",
        DLPACK,
        "if copy == Some(true) || moved || inexpressible {",
        "if moved || inexpressible {",
    ),
    fault(
        "copy=False is always refused",
        DLPACK,
        "if copy == Some(true) || moved || inexpressible {",
        "if copy.is_some() || moved || inexpressible {",
    ),
    fault(
        "a copy does not say that it is one",
        DLPACK,
        "        return unsafe { capsule::versioned(py, tensor.into_raw()) };",
        "        return unsafe { capsule::versioned(py, std::sync::Arc::new(tensor).lend()) };",
    ),
    fault(
        "any stream is good for the CPU",
        DLPACK,
        "    if stream.is_some() || !tensor.device()",
        "    if !tensor.device()",
    ),
    fault(
        "another device is not refused",
        DLPACK,
        "        moved = must_move(tensor.device(), to)?;",
        "        moved = false;",
    ),
    fault(
        "the device is another one than that of the struct",
        TENSOR,
        "        (device.device_type().code(), device.id())\n    }\n\n    /// For `numpy.asarray`",
        "        (device.device_type().code() + 2, device.id())\n    }\n\n    /// For `numpy.asarray`",
    ),
    fault(
        "truth values are numbers",
        "crates/dlbridge/src/dtype.rs",
        "    BOOL = kDLBool, \"bool\", Naming::Fixed(8);",
        "    BOOL = kDLUInt, \"bool\", Naming::Fixed(8);",
    ),
    fault(
        "the allocator of the exchange API fails in silence",
        TABLE,
        "        unsafe { set_error(context, kind.as_ptr(), message.as_ptr()) };",
        "        let _ = (set_error, context, kind);",
    ),
    fault(
        "the exchange API fails without an exception",
        TABLE,
        "    error.restore(py);\n",
        "    let _ = (error, py);\n",
    ),
    fault(
        "the exchange API's tensor is deleted although it was lent",
        TABLE,
        "            *out = tensor.get().lend(Protocol::ExchangeApi)?;",
        "            *out = tensor.get().lend(Protocol::ExchangeApi)?;\n            drop(Tensor::from_raw(*out));",
    ),
];

/// Where the outcome is written.
const PAGE: &str = "docs/conformance-faults.md";

const INTRODUCTION: &str = "\
# Faults made on purpose

`cargo xtask seeded-faults` makes each of these faults in a copy of dlbridge, builds it, and runs the
conformance kit over it. It wrote this page. A fault that only a MAY notices counts as missed.

| fault | where | rules that notice |
|---|---|---|
";

/// How many rules the page names for each fault.
const NAMED: usize = 4;

/// Writes the page of the rules that notice each fault. Returns whether none was missed.
pub(crate) fn run(workplace: &Workplace) -> Result<bool> {
    let (rows, complete) = tried(workplace)?;
    let page = workplace.root.join(PAGE);
    fs::write(&page, format!("{INTRODUCTION}{rows}")).map_err(|e| format!("{PAGE}: {e}"))?;
    Ok(complete)
}

/// Returns whether no fault was missed, and leaves the page as it is.
pub(crate) fn check(workplace: &Workplace) -> Result<bool> {
    Ok(tried(workplace)?.1)
}

/// Runs the kit over dlbridge, as it is and with each fault. Returns the rows of the page, and whether none was missed.
fn tried(workplace: &Workplace) -> Result<(String, bool)> {
    let venv = Venv::made(workplace)?;
    venv.install(&[pins::MATURIN])?;
    venv.install_project(KIT)?;
    let copy = workplace.target.join("seeded");
    let _ = fs::remove_dir_all(&copy);
    process::run(workplace.command("git").args(["clone", "--quiet", "."]).arg(&copy))?;
    let (mut missed, mut untried) = (Vec::new(), Vec::new());
    let mut rows = String::new();
    println!("\n=== as it is");
    let broken = broken_rules(workplace, &venv, &copy)?;
    if !broken.is_empty() {
        return Err(format!("the kit finds something without a fault: {}", broken.join(", ")));
    }
    for Fault { what, file, from, to } in FAULTS {
        println!("\n=== {what}");
        let path = copy.join(file);
        let text = fs::read_to_string(&path).map_err(|e| format!("{file}: {e}"))?;
        if text.matches(from).count() != 1 {
            return Err(format!("{file} does not have the place of `{what}` once"));
        }
        let write = |text: &str| fs::write(&path, text).map_err(|e| format!("{file}: {e}"));
        write(&text.replacen(from, to, 1))?;
        let broken = broken_rules(workplace, &venv, &copy);
        write(&text)?;
        let broken = match broken {
            Ok(broken) => broken,
            Err(error) => {
                println!("{error}");
                untried.push(*what);
                continue;
            }
        };
        println!("broken: {}", broken.join(", "));
        if broken.is_empty() {
            missed.push(*what);
        }
        writeln!(rows, "| {what} | [`{file}`](../{file}) | {} |", named(&broken))
            .expect("a string");
    }
    let found = FAULTS.len() - missed.len() - untried.len();
    println!("\n{found} of {} faults found", FAULTS.len());
    for (outcome, faults) in [("missed", &missed), ("not tried", &untried)] {
        faults.iter().for_each(|what| println!("{outcome}: {what}"));
    }
    Ok((rows, missed.is_empty() && untried.is_empty()))
}

/// The first rules, and how many more.
fn named(broken: &[String]) -> String {
    let (first, rest) = broken.split_at(broken.len().min(NAMED));
    let mut names: Vec<String> = first.iter().map(|id| format!("`{id}`")).collect();
    if !rest.is_empty() {
        names.push(format!("{} more", rest.len()));
    }
    if names.is_empty() { "**nobody notices**".to_owned() } else { names.join(", ") }
}

/// Builds the extension of a copy, and the rules that the kit finds broken in it.
fn broken_rules(workplace: &Workplace, venv: &Venv<'_>, copy: &Path) -> Result<Vec<String>> {
    let mut build = venv.cargo(&["build", "--quiet", "--package", "dlbridge-python"]);
    build.env("RUSTFLAGS", "-Awarnings").arg("--manifest-path").arg(copy.join("Cargo.toml"));
    build.arg("--target-dir").arg(workplace.target.join("seeded-target"));
    process::run(&mut build)?;
    let library = workplace.target.join("seeded-target/debug/lib_core.so");
    let module = copy.join("python/dlbridge/_core.abi3.so");
    fs::copy(&library, &module).map_err(|e| format!("{}: {e}", library.display()))?;
    let report = copy.join("report.xml");
    // One of before would hide that the kit itself ended early.
    let _ = fs::remove_file(&report);
    let mut kit = venv.python();
    kit.args(["-m", "dlbridge_conformance", "dlbridge", "--quiet", "--junit"]).arg(&report);
    kit.env("PYTHONPATH", copy.join("python"));
    let ended = kit.output().map_err(|e| format!("the kit: {e}"))?;
    let report = fs::read_to_string(&report).map_err(|_| {
        format!("the kit wrote no report: {}", String::from_utf8_lossy(&ended.stderr))
    })?;
    Ok(broken_in(&report))
}

/// The names of the test cases that have a failure or an error, in a report that the kit wrote.
fn broken_in(junit: &str) -> Vec<String> {
    let cases = junit.split("<testcase ").skip(1);
    let broken = cases.filter(|case| case.contains("<failure ") || case.contains("<error "));
    let name = |case: &str| Some(case.split_once(" name=\"")?.1.split_once('"')?.0.to_owned());
    broken.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_errors() {
        let junit = r#"<testsuites><testsuite name="dlbridge">
            <testcase classname="a" name="P-ONE" time="1"/>
            <testcase classname="a" name="P-TWO" time="1"><failure type="MUST failed">x</failure></testcase>
            <testcase classname="a" name="C-ONE"><skipped message="y"/></testcase>
            <testcase classname="a" name="C-TWO"><error type="MUST crashed">z</error></testcase>"#;
        assert_eq!(broken_in(junit), ["P-TWO", "C-TWO"]);
    }

    #[test]
    fn every_fault_has_its_place_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for Fault { what, file, from, to } in FAULTS {
            let text = fs::read_to_string(root.join(file)).unwrap();
            assert_eq!(text.matches(from).count(), 1, "{what}: {file}");
            assert_ne!(from, to);
        }
    }
}
