//! `cargo xtask repository URL`: writes the address of the repository into the manifests of the published crates, the
//! Python projects, the READMEs that PyPI shows, and CODEOWNERS.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::address::{self, Address};
use crate::links;
use crate::release::distributions::PROJECTS;
use crate::release::metadata::{self, CODEOWNERS, PLACEHOLDER};
use crate::release::places;
use crate::workplace::in_pages;

/// The start of the line in the root's manifest that the address replaces.
const NO_ADDRESS: &str = "# `repository` is set before publishing";

/// The page that PyPI calls the documentation of each Python project.
const DOCUMENTATION: [(&str, &str); 2] =
    [("dlbridge", "docs/SUMMARY.md"), ("dlbridge_conformance", "docs/conformance.md")];

/// Writes the address, and prints the files that changed.
pub(crate) fn run(root: &Path, url: &str) -> Result<()> {
    let address: Address = url.parse()?;
    let changed = write(root, &address)?;
    if changed.is_empty() {
        println!("every file has {address} already");
        return Ok(());
    }
    for file in &changed {
        println!("{}", in_pages(file));
    }
    println!("Commit these {} files; docs/releasing.md has the next step", changed.len());
    Ok(())
}

/// Writes the address. Returns the files that changed.
fn write(root: &Path, address: &Address) -> Result<Vec<PathBuf>> {
    let old = address::declared(root)?;
    // All files are read before the first is written, so that an error changes nothing.
    let mut texts = Vec::new();
    let mut edit = |file: PathBuf, edited: &dyn Fn(&str) -> Result<String>| {
        let text = places::read(root, &file)?;
        let new = edited(&text).map_err(|e| format!("{}: {e}", in_pages(&file)))?;
        if new != text {
            texts.push((file, new));
        }
        Ok::<_, String>(())
    };
    edit("Cargo.toml".into(), &|text| {
        let lines = text.split_inclusive('\n').filter(|line| !line.starts_with(NO_ADDRESS));
        let text: String = lines.collect();
        with_repository(&text, "[workspace.package]", &format!("repository = \"{address}\""))
    })?;
    for one in metadata::published(root)? {
        edit(one.folder.join("Cargo.toml"), &|text| {
            with_repository(text, "[package]", "repository.workspace = true")
        })?;
    }
    for (folder, project) in PROJECTS {
        let file = |name| places::in_folder(folder, name);
        let page = DOCUMENTATION.iter().find(|(name, _)| name == project);
        let page = page.ok_or_else(|| format!("{project} lacks a page in `DOCUMENTATION`"))?.1;
        let urls = [
            ("Repository", address.to_string()),
            ("Documentation", address.of_file(page)),
            ("Changelog", address.of_file("CHANGELOG.md")),
        ];
        edit(file("pyproject.toml"), &|text| with_urls(text, &urls))?;
        let readme = file("README.md");
        edit(readme.clone(), &|text| with_full_links(&readme, text, old.as_deref(), address))?;
    }
    edit(CODEOWNERS.into(), &|text| Ok(with_owner(text, old.as_deref(), address)))?;
    // The root's manifest, which declares the old address, last: after an error, a second run still finds that.
    texts.sort_by_key(|(file, _)| file == Path::new("Cargo.toml"));
    for (file, text) in &texts {
        fs::write(root.join(file), text).map_err(|e| format!("{}: {e}", in_pages(file)))?;
    }
    Ok(texts.into_iter().map(|(file, _)| file).collect())
}

/// Returns the bytes between the header of a table and the next header.
fn table(text: &str, header: &str) -> Option<Range<usize>> {
    let mut start = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        match start {
            None if line.trim_end() == header => start = Some(at + line.len()),
            Some(start) if line.starts_with('[') => return Some(start..at),
            _ => {}
        }
        at += line.len();
    }
    Some(start?..at)
}

/// Returns a manifest with a line in the place of the table's `repository`, or after its `license`.
fn with_repository(text: &str, header: &str, line: &str) -> Result<String> {
    let table = table(text, header).ok_or_else(|| format!("lacks `{header}`"))?;
    let mut at = table.start;
    let mut after_license = None;
    for found in text[table].split_inclusive('\n') {
        let end = at + found.len();
        if found.starts_with("repository") {
            return Ok(format!("{}{line}\n{}", &text[..at], &text[end..]));
        }
        if found.starts_with("license") {
            after_license = Some(end);
        }
        at = end;
    }
    let at = after_license.ok_or_else(|| {
        format!("lacks a `license` in `{header}`, after which the `repository` goes")
    })?;
    Ok(format!("{}{line}\n{}", &text[..at], &text[at..]))
}

/// Returns a Python project with these addresses in `[project.urls]`, which keeps its other lines.
fn with_urls(text: &str, urls: &[(&str, String)]) -> Result<String> {
    const HEADER: &str = "[project.urls]";
    let lines: String = urls.iter().map(|(name, url)| format!("{name} = \"{url}\"\n")).collect();
    if let Some(table) = table(text, HEADER) {
        let is_other =
            |line: &&str| !urls.iter().any(|(name, _)| line.starts_with(&format!("{name} = ")));
        let others: String = text[table.clone()].split_inclusive('\n').filter(is_other).collect();
        return Ok(format!("{}{lines}{others}{}", &text[..table.start], &text[table.end..]));
    }
    let at = table(text, "[project]").ok_or("lacks `[project]`")?.end;
    let (before, after) = text.split_at(at);
    match after {
        "" => Ok(format!("{before}\n{HEADER}\n{lines}")),
        _ => Ok(format!("{before}{HEADER}\n{lines}\n{after}")),
    }
}

/// Returns a page with the full address in each link to a file of the repository.
fn with_full_links(
    page: &Path,
    text: &str,
    old: Option<&str>,
    address: &Address,
) -> Result<String> {
    let mut found = links::links(text);
    // From the end, so that the other links stay where they are.
    found.sort_by_key(|link| std::cmp::Reverse(link.at));
    let mut new = text.to_owned();
    for link in found {
        let target = match old.and_then(|old| address::path_in(old, link.target)) {
            Some(path) => path.to_owned(),
            None if links::is_external(link.target) => continue,
            None => from_root(page, link.target)?,
        };
        new.replace_range(link.at..link.at + link.target.len(), &address.of_file(&target));
    }
    Ok(new)
}

/// Returns the target of a relative link as a path from the root, with its anchor.
fn from_root(page: &Path, target: &str) -> Result<String> {
    let (path, anchor) = target.split_at(target.find('#').unwrap_or(target.len()));
    let file = if path.is_empty() { page.to_owned() } else { links::resolve(page, path)? };
    Ok(in_pages(&file) + anchor)
}

/// Returns CODEOWNERS with the owner of the repository in the place of the placeholder, or of the old owner.
fn with_owner(text: &str, old: Option<&str>, address: &Address) -> String {
    let text = match text.split_once("\n\n") {
        Some((comment, rest)) if comment.starts_with("# OWNER is a placeholder") => rest,
        _ => text,
    };
    let new = format!("@{}/", address.owner);
    let text = text.replace(PLACEHOLDER, &new);
    match old.and_then(|old| old.parse::<Address>().ok()) {
        Some(old) => text.replace(&format!("@{}/", old.owner), &new),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process;
    use crate::test_copy::{TestCopy, root};

    const URL: &str = "https://github.com/an-owner/dlbridge";

    fn address(url: &str) -> Address {
        url.parse().unwrap()
    }

    /// Returns a copy of the files that the task reads.
    fn copied(name: &str) -> TestCopy {
        let files = places::files(&root()).unwrap().into_iter().chain([CODEOWNERS.into()]);
        TestCopy::new(&format!("repository-{name}"), files)
    }

    #[test]
    fn address_is_written_everywhere() {
        let copy = copied("everywhere");
        write(&copy.0, &address(URL)).unwrap();
        assert_eq!(address::declared(&copy.0), Ok(Some(URL.to_owned())));
        assert!(!copy.read("Cargo.toml").contains(NO_ADDRESS));
        assert!(copy.read(CODEOWNERS).lines().any(|line| line == "*  @an-owner/maintainers"));
        for (file, page) in [
            ("pyproject.toml", "docs/SUMMARY.md"),
            ("conformance/pyproject.toml", "docs/conformance.md"),
        ] {
            let urls = format!(
                "\n\n[project.urls]\nRepository = \"{URL}\"\nDocumentation = \"{URL}/blob/main/{page}\"\n\
                 Changelog = \"{URL}/blob/main/CHANGELOG.md\"\n\n[project."
            );
            assert!(copy.read(file).contains(&urls), "{file}: {}", copy.read(file));
        }
        let readme = copy.read("README.md");
        assert!(readme.contains(&format!("]({URL}/blob/main/docs/SUMMARY.md)")), "{readme}");
        // Only texts of pages are missing.
        let pages = places::files(&copy.0).unwrap();
        let missing = metadata::before_first_release(&copy.0, &pages).unwrap().unwrap_or_default();
        for line in missing.lines().skip(1) {
            assert!(line.contains(" has the text \""), "{line}");
        }
    }

    #[test]
    fn second_call_changes_nothing() {
        let copy = copied("twice");
        write(&copy.0, &address(URL)).unwrap();
        assert_eq!(write(&copy.0, &address(URL)), Ok(Vec::new()));
    }

    #[test]
    fn another_address_replaces_the_first() {
        let copy = copied("moved");
        let first = write(&copy.0, &address(URL)).unwrap();
        let other = "https://git.example.org/others/bridge";
        let changed = write(&copy.0, &address(other)).unwrap();
        for file in ["Cargo.toml", "README.md", "pyproject.toml", CODEOWNERS] {
            assert!(changed.contains(&file.into()), "{file}: {changed:?}");
        }
        for file in first {
            let text = copy.read(&in_pages(&file));
            assert!(!text.contains("an-owner"), "{}: {text}", file.display());
        }
    }

    #[test]
    fn cargo_reads_the_manifests() {
        let mut git = Command::new("git");
        git.current_dir(root()).args(["ls-files", "-z", "*.rs", "*Cargo.toml"]);
        let sources = process::answer(&mut git).unwrap();
        let sources = sources.split('\0').filter(|file| !file.is_empty()).map(PathBuf::from);
        let sources: Vec<_> = sources.filter(|file| root().join(file).is_file()).collect();
        let others = ["pyproject.toml", "conformance/pyproject.toml", CODEOWNERS]
            .into_iter()
            .chain(["README.md", "conformance/README.md"])
            .map(PathBuf::from);
        let copy = TestCopy::new("repository-cargo", sources.into_iter().chain(others));
        write(&copy.0, &address(URL)).unwrap();
        let mut cargo = Command::new("cargo");
        cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
        let read = cargo.current_dir(&copy.0).output().unwrap();
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        let packages = String::from_utf8_lossy(&read.stdout);
        let count = packages.matches(&format!("\"repository\":\"{URL}\"")).count();
        assert_eq!(count, metadata::published(&copy.0).unwrap().len());
    }

    #[test]
    fn error_changes_no_file() {
        let copy = copied("error");
        let before = copy.read("Cargo.toml");
        // The last of the files that are read.
        fs::remove_file(copy.0.join(CODEOWNERS)).unwrap();
        let error = write(&copy.0, &address(URL)).unwrap_err();
        assert!(error.starts_with(CODEOWNERS), "{error}");
        assert!(run(&copy.0, "github.com/a/b").unwrap_err().contains("`https://HOST/OWNER/NAME`"));
        assert_eq!(copy.read("Cargo.toml"), before);
    }

    #[test]
    fn manifest_without_a_licence_is_refused() {
        let line = "repository.workspace = true";
        let error = with_repository("[package]\nname = \"a\"\n", "[package]", line).unwrap_err();
        assert!(error.contains("lacks a `license` in `[package]`"), "{error}");
        let other = "[lints]\nlicense = \"x\"\n";
        assert_eq!(with_repository(other, "[package]", line), Err("lacks `[package]`".into()));
        let text = "[package]\nlicense.workspace = true\nreadme = \"a\"\n\n[lib]\nrepository = 1\n";
        let expected = text.replace("readme", "repository.workspace = true\nreadme");
        assert_eq!(with_repository(text, "[package]", line), Ok(expected));
    }

    #[test]
    fn other_addresses_of_a_project_are_kept() {
        let urls = [("Repository", URL.to_owned())];
        let text = "[project]\nname = \"a\"\n";
        let expected = format!("{text}\n[project.urls]\nRepository = \"{URL}\"\n");
        assert_eq!(with_urls(text, &urls), Ok(expected.clone()));
        assert_eq!(with_urls(&expected, &urls), Ok(expected.clone()));
        let other = expected.replace("Repository", "Funding = \"b\"\nRepository") + "\n[tool.x]\n";
        let expected = format!("{expected}Funding = \"b\"\n\n[tool.x]\n");
        assert_eq!(with_urls(&other, &urls), Ok(expected));
    }

    #[test]
    fn links_to_files_get_the_full_address() {
        let full =
            |text: &str| with_full_links(Path::new("a/README.md"), text, None, &address(URL));
        let text =
            "[b](../docs/b.md#c) `[d](d)` [e](https://example.org) [f](f \"g\") [h]\n\n[h]: #i\n";
        let expected = format!(
            "[b]({URL}/blob/main/docs/b.md#c) `[d](d)` [e](https://example.org) \
             [f]({URL}/blob/main/a/f \"g\") [h]\n\n[h]: {URL}/blob/main/a/README.md#i\n"
        );
        assert_eq!(full(text), Ok(expected.clone()));
        assert_eq!(full(&expected), Ok(expected));
        assert!(full("[b](../../c)").unwrap_err().contains("leads out of the repository"));
    }

    #[test]
    fn only_the_placeholder_and_its_comment_are_replaced() {
        let owned = |text: &str| with_owner(text, None, &address(URL));
        let text = "# Rust.\n\n*.rs  @OWNER/rust @a-person\n";
        assert_eq!(owned(text), text.replace("OWNER", "an-owner"));
        let comment = "# OWNER is a placeholder.\n# It goes.\n\n";
        assert_eq!(owned(&format!("{comment}{text}")), text.replace("OWNER", "an-owner"));
    }
}
