//! The table of unsafe code in `docs/safety.md`, checked against the sources or written from them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::workplace::in_pages;

const PAGE: &str = "docs/safety.md";
const HEADING: &str = "| file | blocks | promises | contracts |\n| --- | --- | --- | --- |\n";

/// The unsafe code in a file.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    blocks: usize,
    promises: usize,
    contracts: usize,
}

/// Compares the table with the sources of all crates.
pub(crate) fn check(root: &Path) -> Result<()> {
    let (page, rows) = (read(root)?, rows(root)?);
    if with_rows(&page, &rows)? == page {
        return Ok(());
    }
    Err(format!(
        "the table of unsafe code in {PAGE} differs from the sources; `cargo xtask unsafe-table` \
         rewrites it. The sources give\n\n{rows}"
    ))
}

/// Writes the table from the sources of all crates.
pub(crate) fn write(root: &Path) -> Result<()> {
    let page = read(root)?;
    let written = with_rows(&page, &rows(root)?)?;
    if written == page {
        println!("The table in {PAGE} was already correct.");
        return Ok(());
    }
    fs::write(root.join(PAGE), written).map_err(|e| format!("{PAGE}: {e}"))?;
    println!("Rewrote the table in {PAGE}.");
    Ok(())
}

fn read(root: &Path) -> Result<String> {
    fs::read_to_string(root.join(PAGE)).map_err(|e| format!("{PAGE}: {e}"))
}

/// Returns the page with new rows in its table, which ends at the first empty line. New rows replace a merge conflict
/// inside the table; a conflict that reaches beyond the table is an error.
fn with_rows(page: &str, rows: &str) -> Result<String> {
    let (before, rest) = page
        .split_once(HEADING)
        .ok_or_else(|| format!("{PAGE} lacks a table that begins\n{HEADING}"))?;
    let old: usize =
        rest.split_inclusive('\n').take_while(|line| line.trim() != "").map(str::len).sum();
    let (old, after) = rest.split_at(old);
    let marks = |mark| old.lines().filter(|line| line.starts_with(mark)).count();
    if marks("<<<<<<<") != marks(">>>>>>>") {
        return Err(format!(
            "a merge conflict in {PAGE} begins or ends outside the table; resolve it first"
        ));
    }
    Ok(format!("{before}{HEADING}{rows}{after}"))
}

/// Returns the rows of the table: every file with unsafe code, and the sums.
fn rows(root: &Path) -> Result<String> {
    let mut files = Vec::new();
    for room in ["crates", "adapters", "conformance"] {
        sources(&root.join(room), &mut files).map_err(|e| format!("{room}: {e}"))?;
    }
    files.sort();
    let (mut rows, mut all) = (String::new(), Counts::default());
    let row = |name: &str, c: &Counts| {
        format!("| {name} | {} | {} | {} |\n", c.blocks, c.promises, c.contracts)
    };
    for file in files {
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let counts = count(&text);
        if counts != Counts::default() {
            let name = in_pages(file.strip_prefix(root).unwrap_or(&file));
            rows += &row(&format!("`{name}`"), &counts);
            all.blocks += counts.blocks;
            all.promises += counts.promises;
            all.contracts += counts.contracts;
        }
    }
    Ok(rows + &row("all", &all))
}

/// Collects the Rust files in the `src` folders below a directory.
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

/// Counts unsafe code in a file, outside of comments.
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
    fn with_rows_other_rows_are_replaced() {
        let page = |rows| format!("# Safety\n\n{HEADING}{rows}\nAfter it.\n\n| a | table |\n");
        let (old, new) = ("| `a.rs` | 1 | 0 | 0 |\n| all | 1 | 0 | 0 |\n", "| all | 0 | 0 | 0 |\n");
        assert_eq!(with_rows(&page(old), new), Ok(page(new)));
        assert_eq!(with_rows(&page(""), new), Ok(page(new)));
    }

    #[test]
    fn with_rows_conflict_in_the_table_is_replaced() {
        let page = |rows| format!("{HEADING}{rows}\nAfter it.\n");
        let conflict = "<<<<<<< a\n| all | 1 | 0 | 0 |\n=======\n| all | 2 | 0 | 0 |\n>>>>>>> b\n";
        let new = "| all | 3 | 0 | 0 |\n";
        assert_eq!(with_rows(&page(conflict), new), Ok(page(new)));
    }

    #[test]
    fn with_rows_conflict_beyond_the_table_is_refused() {
        let page = format!("{HEADING}<<<<<<< a\n| all | 1 | 0 | 0 |\n\n=======\n>>>>>>> b\n");
        assert!(with_rows(&page, "").unwrap_err().contains("merge conflict"));
        assert!(with_rows("# Safety\n", "").is_err());
    }

    #[test]
    fn comments_and_types_do_not_count() {
        let text = "
            // unsafe { in a comment }
            //! unsafe impl in another
            unsafe impl Send for A {}
            pub unsafe fn call(f: unsafe extern \"C\" fn(*mut A)) {
                let a = unsafe { f(unsafe { g() }) };
            }
            unsafe extern \"C\" fn delete() {}
            pub unsafe trait Owner {}
        ";
        assert_eq!(count(text), Counts { blocks: 2, promises: 1, contracts: 3 });
    }
}
