//! The licences of the libraries that are linked into the wheels: a file in each wheel, checked against the
//! dependencies or written from them.

use std::fs;
use std::path::Path;

use crate::{Result, Workplace, process};

/// The file, which the Python projects name in `license-files`.
const FILE: &str = "LICENSE-THIRD-PARTY";

/// The crates that become the extension modules of the wheels.
const EXTENSIONS: [&str; 2] = ["dlbridge-python", "dlbridge-crafter"];

/// The targets of the published wheels.
const TARGETS: [&str; 7] = [
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-gnu",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
];

const APACHE: &str = "Apache-2.0";

/// The starts of the names of files that a copy of a library must have.
const TEXTS: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];

/// A library from crates.io.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Library {
    name: String,
    version: String,
    licence: String,
    address: String,
}

/// Compares the file with the dependencies.
pub(crate) fn check(workplace: &Workplace) -> Result<()> {
    let (found, expected) = (read(&workplace.root)?, text(workplace)?);
    if found == expected {
        return Ok(());
    }
    Err(format!(
        "{FILE} does not have the licences of the libraries that are linked into the wheels; \
         `cargo xtask licences` rewrites it"
    ))
}

/// Writes the file.
pub(crate) fn write(workplace: &Workplace) -> Result<()> {
    let path = workplace.root.join(FILE);
    fs::write(&path, text(workplace)?).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("Wrote {FILE}.");
    Ok(())
}

fn read(root: &Path) -> Result<String> {
    fs::read_to_string(root.join(FILE)).map_err(|e| format!("{FILE}: {e}"))
}

/// Returns the text of the file.
fn text(workplace: &Workplace) -> Result<String> {
    let libraries = libraries(workplace)?;
    let metadata =
        process::answer(&mut workplace.cargo(&["metadata", "--locked", "--format-version", "1"]))
            .ok_or(
            "`cargo metadata --locked` failed; it needs what `cargo fetch --locked` downloads",
        )?;
    let mut text = String::from(
        "The wheels of dlbridge and dlbridge-conformance contain these crates, and parts of Rust's standard library, whose\n\
         notices are in the file COPYRIGHT-library.html of a distribution of Rust.\n\n\
         Used under the Apache License, Version 2.0, whose text is in LICENSE-APACHE:\n\n",
    );
    let (apache, others): (Vec<_>, Vec<_>) =
        libraries.iter().partition(|library| may_be_apache(&library.licence));
    for library in &apache {
        text += &format!("- {}, {}\n", library.name, library.address);
    }
    text += "\nUsed under other licences, whose texts follow:\n\n";
    for library in &others {
        text += &format!("- {} ({}), {}\n", library.name, library.licence, library.address);
    }
    for library in apache.into_iter().chain(others) {
        let is_apache = may_be_apache(&library.licence);
        let files = texts(&folder(&metadata, library)?, is_apache)?;
        if !is_apache && files.is_empty() {
            return Err(format!("the package of {} lacks the text of its licence", library.name));
        }
        for (name, content) in files {
            text += &format!("\n==== {}: {name} ====\n\n{}\n", library.name, content.trim());
        }
    }
    Ok(text)
}

/// Returns the libraries that are linked into an extension module for any target, each once.
fn libraries(workplace: &Workplace) -> Result<Vec<Library>> {
    let mut tree =
        workplace.cargo(&["tree", "--locked", "--prefix", "none", "--format", "{p}|{l}|{r}"]);
    tree.args(["--edges", "normal,no-proc-macro"]);
    tree.args(EXTENSIONS.iter().flat_map(|name| ["--package", name]));
    tree.args(TARGETS.iter().flat_map(|target| ["--target", target]));
    let lines = process::answer(&mut tree).ok_or("`cargo tree --locked` failed")?;
    let mut libraries: Vec<_> = lines.lines().filter_map(library).collect();
    libraries.sort();
    libraries.dedup();
    Ok(libraries)
}

/// Returns the library in a line of `cargo tree`; `None` for the project's own crates.
fn library(line: &str) -> Option<Library> {
    let mut parts = line.trim_end_matches(" (*)").split('|');
    let (package, licence, address) = (parts.next()?, parts.next()?, parts.next()?);
    let (name, version) = package.split_once(" v")?;
    // The folder of a crate of this project.
    if version.contains(" (/") {
        return None;
    }
    let [name, version, licence, address] = [name, version, licence, address].map(str::to_owned);
    Some(Library { name, version, licence, address: address.trim_end_matches('/').to_owned() })
}

/// Returns true if a licence expression lets the user choose the Apache License alone.
fn may_be_apache(licence: &str) -> bool {
    !licence.contains(" AND ")
        && licence.split(" OR ").flat_map(|part| part.split('/')).any(|part| part.trim() == APACHE)
}

/// Returns the folder of a library's package, from the output of `cargo metadata`.
fn folder(metadata: &str, library: &Library) -> Result<std::path::PathBuf> {
    let end = format!("{}-{}", library.name, library.version);
    let manifests =
        metadata.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut folders = manifests.filter_map(|manifest| Path::new(manifest).parent());
    let found = folders.find(|folder| folder.file_name().is_some_and(|name| name == end.as_str()));
    found.map(Path::to_path_buf).ok_or_else(|| format!("cargo lacks the sources of {end}"))
}

/// Returns the files of a package that each copy must have, by name: only notices under the Apache License.
fn texts(folder: &Path, is_apache: bool) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for name in crate::workplace::names(folder) {
        let starts = if is_apache { &TEXTS[3..] } else { &TEXTS[..] };
        let path = folder.join(&name);
        if path.is_file() && starts.iter().any(|start| name.to_uppercase().starts_with(start)) {
            let content =
                fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            found.push((name, content.replace('\r', "")));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_of_crates_io() {
        let line = "zip v9.4.1|MIT|https://example.org/zip/ (*)";
        let found = library("zip v9.4.1|MIT|https://example.org/zip/").unwrap();
        assert_eq!((&*found.name, &*found.version), ("zip", "9.4.1"));
        assert_eq!((&*found.licence, &*found.address), ("MIT", "https://example.org/zip"));
        assert_eq!(library(line), Some(found));
        assert_eq!(library("dlbridge v0.1.0 (/a/b)|MIT OR Apache-2.0|"), None);
        assert_eq!(library(""), None);
    }

    #[test]
    fn apache_is_chosen_where_it_may_be() {
        for licence in
            ["MIT OR Apache-2.0", "Apache-2.0", "MIT/Apache-2.0", "0BSD OR MIT OR Apache-2.0"]
        {
            assert!(may_be_apache(licence), "{licence}");
        }
        for licence in ["MIT", "Unlicense OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
            assert!(!may_be_apache(licence), "{licence}");
        }
    }

    #[test]
    fn folder_is_that_of_the_version() {
        let metadata = r#"{"manifest_path":"/r/zip-9.4.1/Cargo.toml"},{"manifest_path":"/r/zip-8.0.0/Cargo.toml"}"#;
        let zip = |version| library(&format!("zip v{version}|MIT|")).unwrap();
        assert_eq!(folder(metadata, &zip("8.0.0")), Ok("/r/zip-8.0.0".into()));
        assert!(folder(metadata, &zip("7.0.0")).is_err());
    }
}
