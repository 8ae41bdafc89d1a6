//! The table in `docs/safety.md` that says where the unsafe code is, compared with the sources.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;

const PAGE: &str = "docs/safety.md";
const HEADING: &str = "| file | blocks | promises | contracts |";

/// How often a file is unsafe.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    blocks: usize,
    promises: usize,
    contracts: usize,
}

/// Compares the table with the sources of all crates.
pub(crate) fn check(root: &Path) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).map_err(|e| format!("{PAGE}: {e}"))?;
    let table = page.split_once(HEADING).and_then(|(_, rest)| rest.split_once("\n\n"));
    let (found, _) = table.ok_or_else(|| format!("{PAGE} has no table that begins {HEADING}"))?;
    let rows = rows(root)?;
    match found.trim_start().strip_prefix("| --- | --- | --- | --- |").map(str::trim) {
        Some(found) if found == rows.trim() => Ok(()),
        _ => Err(format!("{PAGE} has another table than the sources, which give\n\n{rows}")),
    }
}

/// The rows of the table: every file with unsafe code, and the sums.
fn rows(root: &Path) -> Result<String> {
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files).map_err(|e| format!("crates: {e}"))?;
    files.sort();
    let (mut rows, mut all) = (String::new(), Counts::default());
    let row = |name: &str, c: &Counts| {
        format!("| {name} | {} | {} | {} |\n", c.blocks, c.promises, c.contracts)
    };
    for file in files {
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let counts = count(&text);
        if counts != Counts::default() {
            let name = file.strip_prefix(root.join("crates")).unwrap_or(&file).display();
            rows += &row(&format!("`{name}`"), &counts);
            all.blocks += counts.blocks;
            all.promises += counts.promises;
            all.contracts += counts.contracts;
        }
    }
    Ok(rows + &row("all", &all))
}

/// The Rust files in the `src` folders below a directory.
fn sources(directory: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let in_src = path.components().any(|c| c.as_os_str() == "src");
        if path.is_dir() {
            sources(&path, files)?;
        } else if in_src && path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Counts what a file says outside of comments.
fn count(text: &str) -> Counts {
    let mut counts = Counts::default();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for (at, _) in line.match_indices("unsafe ") {
            let after = &line[at + "unsafe ".len()..];
            let after = after.strip_prefix("extern \"C\" ").unwrap_or(after);
            // `unsafe extern "C" fn(` without a name is a type.
            if after.starts_with("impl") {
                counts.promises += 1;
            } else if after.starts_with("fn ") || after.starts_with("trait ") {
                counts.contracts += 1;
            } else if after.starts_with('{') {
                counts.blocks += 1;
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_types_do_not_count() {
        let text = "
            // unsafe { in a comment }
            //! unsafe impl in another
            unsafe impl Send for A {}
            pub unsafe fn door(f: unsafe extern \"C\" fn(*mut A)) {
                let a = unsafe { f(unsafe { g() }) };
            }
            unsafe extern \"C\" fn delete() {}
            pub unsafe trait Owner {}
        ";
        assert_eq!(count(text), Counts { blocks: 2, promises: 1, contracts: 3 });
    }
}
