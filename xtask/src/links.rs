//! The links of the Markdown pages: every relative target exists, every anchor is a heading, every page is in the book.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::{Result, address};

/// The folder of the book's pages.
pub(crate) const DOCS: &str = "docs";

/// The page with the list of chapters.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

/// Pages outside the book whose links are checked too.
const OTHER_PAGES: &[&str] = &["README.md", "CONTRIBUTING.md", "SECURITY.md"];

/// A link, without its text.
#[derive(Debug, PartialEq)]
pub(crate) struct Link<'a> {
    /// The first byte of the target in the text.
    pub(crate) at: usize,
    pub(crate) target: &'a str,
}

/// Checks the links of [`OTHER_PAGES`] and docs/, and prints their number.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut pages = pages(root)?;
    pages.extend(OTHER_PAGES.iter().map(PathBuf::from));
    let address = address::declared(root)?;
    let (mut count, mut broken) = (0, Vec::new());
    for page in &pages {
        let text = read(root, page)?;
        for link in links(&text) {
            count += 1;
            if let Err(reason) = check_link(root, address.as_deref(), page, link.target) {
                let line = text[..link.at].matches('\n').count() + 1;
                broken.push(format!("{}:{line}: {reason}", page.display()));
            }
        }
    }
    broken.extend(missing_chapters(root)?);
    if !broken.is_empty() {
        return Err(format!("broken links:\n    {}", broken.join("\n    ")));
    }
    println!("{count} links in {} pages", pages.len());
    Ok(())
}

/// Returns the Markdown pages of the book, from the root.
pub(crate) fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    collect(root, Path::new(DOCS), &mut found).map_err(|e| format!("{DOCS}: {e}"))?;
    found.retain(|file| file.extension().is_some_and(|e| e == "md"));
    Ok(found)
}

/// Collects the files in a folder and below it, from the root and in a fixed order.
pub(crate) fn collect(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries: Vec<_> =
        fs::read_dir(root.join(folder))?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(root, &path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn read(root: &Path, page: &Path) -> Result<String> {
    fs::read_to_string(root.join(page)).map_err(|e| format!("{}: {e}", page.display()))
}

/// Checks that a target exists, and has the heading of its anchor. A link may begin with the address of the repository.
fn check_link(root: &Path, address: Option<&str>, page: &Path, target: &str) -> Result<()> {
    let (page, target) = match address.and_then(|address| address::path_in(address, target)) {
        Some(path) => (Path::new(""), path),
        None if is_external(target) => return Ok(()),
        None => (page, target),
    };
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if path.is_empty() { page.to_owned() } else { resolve(page, path)? };
    if !root.join(&file).exists() {
        return Err(format!("`{target}` links to {}, which does not exist", file.display()));
    }
    let is_page = file.extension().is_some_and(|e| e == "md");
    if anchor.is_empty() || (is_page && anchors(&read(root, &file)?).contains(anchor)) {
        return Ok(());
    }
    Err(format!("`{target}` names a heading that {} does not have", file.display()))
}

/// Returns true for `https://...` or `mailto:...`.
pub(crate) fn is_external(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// Returns the path of a link's target from the root.
pub(crate) fn resolve(page: &Path, target: &str) -> Result<PathBuf> {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for component in Path::new(target).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if path.pop() => {}
            Component::Normal(name) => path.push(name),
            _ => return Err(format!("`{target}` leads out of the repository")),
        }
    }
    Ok(path)
}

/// Returns the pages that the summary lacks: mdBook would silently leave them out.
fn missing_chapters(root: &Path) -> Result<Vec<String>> {
    let summary = Path::new(SUMMARY);
    let text = read(root, summary)?;
    let listed: Vec<_> =
        links(&text).iter().filter_map(|link| resolve(summary, link.target).ok()).collect();
    let missing = pages(root)?.into_iter().filter(|page| page != summary && !listed.contains(page));
    Ok(missing.map(|page| format!("{SUMMARY}: {} is missing", page.display())).collect())
}

/// Returns the links and images of a page, outside of code.
pub(crate) fn links(text: &str) -> Vec<Link<'_>> {
    let prose = without_code(text);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = prose[from..].find("](").map(|at| from + at + 2) {
        from = at;
        let Some(end) =
            prose[at..].find([')', '\n']).filter(|end| prose[at + end..].starts_with(')'))
        else {
            continue;
        };
        found.push(link(text, at, at + end));
    }
    // `[text]: target`, the target of reference links.
    let mut start = 0;
    for line in prose.split_inclusive('\n') {
        if let Some((_, after)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            let end = start + line.len();
            found.push(link(text, end - after.len(), end));
        }
        start += line.len();
    }
    found
}

/// Returns the link whose target begins after blanks in a part of a text. A title may follow it.
fn link(text: &str, start: usize, end: usize) -> Link<'_> {
    let target = text[start..end].trim_start();
    let at = end - target.len();
    Link { at, target: target.split_whitespace().next().unwrap_or_default() }
}

/// Returns the anchors of a page's headings, as both forges and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let prose = without_code(text);
    let mut start = 0;
    for line in prose.split_inclusive('\n') {
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        if (1..=6).contains(&level) && heading.starts_with(' ') {
            // Code in a heading is part of its anchor.
            let heading = text[start + level..start + line.len()].trim();
            let slug = slug(heading);
            let mut name = slug.clone();
            let mut again = 0;
            while !found.insert(name) {
                again += 1;
                name = format!("{slug}-{again}");
            }
        }
        start += line.len();
    }
    found
}

/// Returns the text of a heading in lower case, with hyphens for spaces and without punctuation.
fn slug(heading: &str) -> String {
    let mut slug = String::new();
    // The target of a link in a heading is not part of its text.
    let mut rest = heading;
    while let Some((text, after)) = rest.split_once("](") {
        slug.push_str(text);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    slug.push_str(rest);
    let kept = slug.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the text with all code replaced by the same number of neutral bytes.
fn without_code(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut fence: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let mark = trimmed.len() - trimmed.trim_start_matches('`').len();
        match fence {
            Some(open) if trimmed.trim_end() == open => fence = None,
            None if mark >= 3 => fence = Some(&trimmed[..mark]),
            Some(_) => {}
            None => {
                prose.push_str(line);
                continue;
            }
        }
        blank(line, &mut prose);
    }
    let mut outside = String::with_capacity(text.len());
    let mut rest = prose.as_str();
    // A code span ends at the same number of backticks as it begins with, in the same paragraph.
    while let Some(at) = rest.find('`') {
        let (before, code) = rest.split_at(at);
        outside.push_str(before);
        let ticks = &code[..code.len() - code.trim_start_matches('`').len()];
        let inside = &code[ticks.len()..];
        let paragraph = inside.find("\n\n").unwrap_or(inside.len());
        let end = closing(&inside[..paragraph], ticks.len());
        let (span, after) = code.split_at(end.map_or(ticks.len(), |end| 2 * ticks.len() + end));
        blank(span, &mut outside);
        rest = after;
    }
    outside.push_str(rest);
    outside
}

/// Returns the start of the next run of exactly `ticks` backticks.
fn closing(text: &str, ticks: usize) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].find('`').map(|at| from + at) {
        let run = text[at..].len() - text[at..].trim_start_matches('`').len();
        if run == ticks {
            return Some(at);
        }
        from = at + run;
    }
    None
}

fn blank(text: &str, to: &mut String) {
    to.extend(text.bytes().map(|byte| if byte == b'\n' { '\n' } else { '.' }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<&str> {
        links(text).iter().map(|link| link.target).collect()
    }

    #[test]
    fn links_in_prose_are_found() {
        assert_eq!(
            targets("[a](b.md) and ![c](d.svg), [`e`](f.md#g)"),
            ["b.md", "d.svg", "f.md#g"]
        );
        assert_eq!(targets("[a](b.md \"title\")\n[c]: d.md\n"), ["b.md", "d.md"]);
        assert_eq!(targets("x\n[two\nlines](a.md)"), ["a.md"]);
        for text in ["[a]( b.md )", "[r]:  b.md\n"] {
            let found = links(text);
            assert_eq!(found, [Link { at: text.find('b').unwrap(), target: "b.md" }]);
        }
    }

    #[test]
    fn links_in_code_are_ignored() {
        assert_eq!(targets("`[a](b)` and ``[`](c)``"), [""; 0]);
        assert_eq!(targets("```text\n[a](b)\n```\n[c](d)"), ["d"]);
        assert_eq!(targets("````text\n```\n[a](b)\n````\n[c](d)"), ["d"]);
        assert_eq!(targets("  ```text\n  [a](b)\n  ```\n[c](d)"), ["d"]);
    }

    #[test]
    fn lone_backtick_hides_nothing() {
        assert_eq!(targets("a ` b\n\n[c](d) and `e`"), ["d"]);
    }

    #[test]
    fn position_counts_bytes() {
        let text = "ä `ö` [a](b)";
        let [link] = &links(text)[..] else { panic!() };
        assert_eq!(&text[link.at..], "b)");
    }

    #[test]
    fn anchors_are_those_of_headings() {
        let text =
            "# A b\n## `c_d` e's, (f)\n```sh\n# not one\n```\n## A b\n### [g](h.md) i\n#no\n";
        let expected = ["a-b", "a-b-1", "c_d-es-f", "g-i"];
        assert!(anchors(text).iter().map(String::as_str).eq(expected));
    }

    #[test]
    fn targets_are_resolved_from_their_page() {
        let page = Path::new("docs/guides/a.md");
        assert_eq!(resolve(page, "b.md").unwrap(), Path::new("docs/guides/b.md"));
        assert_eq!(resolve(page, "../../examples/x").unwrap(), Path::new("examples/x"));
        assert!(resolve(page, "../../../x").is_err());
        assert!(resolve(page, "/x").is_err());
    }

    #[test]
    fn broken_target_and_broken_anchor_are_refused() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let address = "https://example.org/a/b";
        let check =
            |target: &str| check_link(root, Some(address), Path::new("docs/pyo3.md"), target);
        assert_eq!(check("migration.md"), Ok(()));
        assert_eq!(check("#typed-arguments"), Ok(()));
        assert_eq!(check("../examples/template"), Ok(()));
        assert_eq!(check("https://example.com/x"), Ok(()));
        assert!(check("no-such-page.md").unwrap_err().contains("does not exist"));
        assert!(check("#no-such-heading").unwrap_err().contains("does not have"));
        assert!(check("../examples/template#x").is_err());
        let file = |path| format!("{address}/blob/main/{path}");
        assert_eq!(check(&file("docs/pyo3.md#typed-arguments")), Ok(()));
        assert_eq!(check(&format!("{address}/issues/1")), Ok(()));
        assert!(check(&file("pyo3.md")).unwrap_err().contains("does not exist"));
        assert!(check(&file("docs/pyo3.md#x")).unwrap_err().contains("does not have"));
    }
}
