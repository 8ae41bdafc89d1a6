//! `cargo xtask book`: builds the pages of `docs/` as a book, with mdBook.
//!
//! Pages link to each other and to files of the repository by relative paths, so that links work on a forge and in a
//! clone. The book has only the chapters: in it, a link to any other file becomes its text, with the path as a tooltip.

use std::fs;
use std::path::{Path, PathBuf};

use crate::links::{self, DOCS, SUMMARY};
use crate::workplace::in_pages;
use crate::{Result, Workplace, pins, process};

/// The settings of the book.
const SETTINGS: &str = "book.toml";

/// Checks the links and builds the book, in `target/book`.
pub(crate) fn run(workplace: &Workplace) -> Result<()> {
    links::check(&workplace.root)?;
    let source = copy_pages(workplace)?;
    let book = workplace.target.join("book");
    let mut build = workplace.command(installed(workplace)?);
    build.arg("build").arg(&source).arg("--dest-dir").arg(&book);
    let ended = build.output().map_err(|e| format!("mdBook did not start: {e}"))?;
    let log = [ended.stdout, ended.stderr].concat();
    let log = String::from_utf8_lossy(&log);
    print!("{log}");
    if !ended.status.success() {
        return Err(format!("mdBook failed ({})", ended.status));
    }
    // mdBook lacks an option that makes warnings errors.
    if let Some(warning) = log.lines().find(|line| is_warning(line)) {
        return Err(format!("mdBook warns, and a warning is an error here: {warning}"));
    }
    println!("The book is {}", book.join("index.html").display());
    Ok(())
}

/// The pinned mdBook, installed once.
fn installed(workplace: &Workplace) -> Result<PathBuf> {
    let version = pins::MDBOOK.rsplit('@').next().unwrap_or_default();
    let root = workplace.target.join("tools");
    let tool = root.join("bin").join("mdbook");
    let has = process::answer(workplace.command(&tool).arg("--version"));
    if has.is_none_or(|has| has.trim() != format!("mdbook v{version}")) {
        // Without its server, which needs most of its dependencies. It is fast enough unoptimised.
        let mut install =
            workplace.cargo(&["install", "--locked", "--quiet", "--debug", "--force"]);
        install.args(["--no-default-features", "--features", "search", pins::MDBOOK]);
        let built = root.join("target-mdbook");
        install.arg("--target-dir").arg(&built).env("CARGO_PROFILE_DEV_DEBUG", "0");
        process::run(install.arg("--root").arg(&root))?;
        let _ = fs::remove_dir_all(built);
    }
    Ok(tool)
}

/// Copies the book's sources to `target/book-source`, with links that work there. Returns that folder.
fn copy_pages(workplace: &Workplace) -> Result<PathBuf> {
    let copy = workplace.target.join("book-source");
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("{path}: {error}")
    };
    // Pages that were deleted must not stay.
    let _ = fs::remove_dir_all(&copy);
    let mut files = vec![PathBuf::from(SETTINGS)];
    links::collect(&workplace.root, Path::new(DOCS), &mut files)
        .map_err(failed(Path::new(DOCS)))?;
    for file in &files {
        let (from, to) = (workplace.root.join(file), copy.join(file));
        fs::create_dir_all(to.parent().unwrap_or(&copy)).map_err(failed(&to))?;
        if file.extension().is_some_and(|e| e == "md") {
            let text = fs::read_to_string(&from).map_err(failed(&from))?;
            fs::write(&to, inside(file, &text)?).map_err(failed(&to))?;
        } else {
            fs::copy(&from, &to).map_err(failed(&from))?;
        }
    }
    Ok(copy)
}

/// Returns a page with its text instead of each link to a file that is not a chapter.
fn inside(page: &Path, text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for link in links::links(text) {
        if links::is_external(link.target) {
            continue;
        }
        let path = link.target.split('#').next().unwrap_or_default();
        let file = if path.is_empty() { page.to_owned() } else { links::resolve(page, path)? };
        if file.starts_with(DOCS) && file != Path::new(SUMMARY) {
            // mdBook renames the chapter to `index.md`, but not the links to it.
            if let Some(folder) = path.strip_suffix("README.md") {
                out.push_str(&text[done..link.at]);
                out.push_str(folder);
                out.push_str("index.md");
                done = link.at + path.len();
            }
            continue;
        }
        // `[text](` before the target, `)` after it.
        let Some(open) = opening(&text[..link.at]) else {
            return Err(format!(
                "{}: the text of the link to `{path}` is not clear",
                page.display()
            ));
        };
        let end = link.at + text[link.at..].find(')').unwrap_or_default() + 1;
        out.push_str(&text[done..open]);
        let inner = &text[open + 1..link.at - 2];
        out.push_str(&format!(
            "<abbr title=\"in the repository: {}\">{inner}</abbr>",
            in_pages(&file)
        ));
        done = end;
    }
    out.push_str(&text[done..]);
    Ok(out)
}

/// Returns the bracket that opens the text of a link, whose target begins where `before` ends.
fn opening(before: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in before.strip_suffix('(')?.bytes().enumerate().rev() {
        match byte {
            b']' => depth += 1,
            b'[' if depth == 1 => return Some(at),
            b'[' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns true for a line of mdBook's log that is a warning or an error.
fn is_warning(line: &str) -> bool {
    ["WARN", "ERROR"].iter().any(|level| line.split_whitespace().take(3).any(|word| word == *level))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> String {
        inside(Path::new("docs/guides/a.md"), text).unwrap()
    }

    #[test]
    fn link_out_of_the_book_becomes_its_text() {
        let expected = "see <abbr title=\"in the repository: examples/x\">`x`</abbr>, [y](../b.md)";
        assert_eq!(page("see [`x`](../../examples/x), [y](../b.md)"), expected);
    }

    #[test]
    fn link_within_the_book_stays() {
        let text = "[a](#b) [c](d.md#e) [f](https://example.com/g) `[h](../../i)`\n";
        assert_eq!(page(text), text);
    }

    #[test]
    fn chapter_of_a_folder_is_linked_as_mdbook_calls_it() {
        assert_eq!(page("[a](../README.md#b)"), "[a](../index.md#b)");
    }

    #[test]
    fn list_of_chapters_is_not_a_chapter() {
        assert!(page("[a](../SUMMARY.md)").starts_with("<abbr "));
    }

    #[test]
    fn brackets_in_the_text_of_a_link_are_kept() {
        let expected = "<abbr title=\"in the repository: b\">`[a]`</abbr>";
        assert_eq!(page("[`[a]`](../../b)"), expected);
    }

    #[test]
    fn warnings_of_mdbook_are_detected() {
        assert!(is_warning(" WARN unclosed HTML tag `<T>`"));
        assert!(is_warning("2026-01-01 00:00:00 [WARN] x".replace(['[', ']'], "").as_str()));
        assert!(!is_warning(" INFO Book building has started"));
        assert!(!is_warning(" INFO the page that says what to do about a WARN"));
    }
}
