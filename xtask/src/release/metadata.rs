//! The manifests of the published crates: what crates.io and docs.rs show, and the licence in each package.

use std::fs;
use std::path::{Path, PathBuf};

use super::distributions::PROJECTS;
use super::places;
use crate::crates::folders;
use crate::workplace::in_pages;
use crate::{Result, address, links};

/// The most keywords and the longest keyword that crates.io accepts.
const KEYWORDS: (usize, usize) = (5, 20);

/// The most categories that crates.io accepts.
const CATEGORIES: usize = 5;

/// Texts of pages that the first release makes untrue, in lower case. The last is a path to a clone in a command; those before it, which docs.rs replaces, describe a clone too.
const UNPUBLISHED: [&str; 9] = [
    "the repository lacks an address",
    "nothing is published yet",
    "is not published yet",
    "is not on pypi yet",
    "is not on crates.io yet",
    "no version has been released yet",
    "in the clone shows every type",
    "in the clone: every type",
    "path/to/dlbridge",
];

/// The file with the teams that GitHub asks for reviews.
pub(crate) const CODEOWNERS: &str = ".github/CODEOWNERS";

/// The owner of these teams in [`CODEOWNERS`], until `cargo xtask repository` writes the real one.
pub(crate) const PLACEHOLDER: &str = "@OWNER/";

/// A crate that a release publishes.
pub(crate) struct Published {
    pub(crate) name: String,
    /// Its folder, from the root.
    pub(crate) folder: PathBuf,
    manifest: String,
}

/// Returns the crates that a release publishes.
pub(crate) fn published(root: &Path) -> Result<Vec<Published>> {
    let mut crates = Vec::new();
    for (name, path) in folders(root) {
        let file = path.join("Cargo.toml");
        let manifest = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        if !manifest.lines().any(|line| line == "publish = false") {
            let folder = path.strip_prefix(root).unwrap_or(&path).to_owned();
            crates.push(Published { name, folder, manifest });
        }
    }
    Ok(crates)
}

/// Checks that the manifest of each published crate is complete, and prints their number.
pub(crate) fn check(root: &Path) -> Result<()> {
    let workspace = root.join("Cargo.toml");
    let workspace = fs::read_to_string(&workspace).map_err(|e| format!("Cargo.toml: {e}"))?;
    let crates = published(root)?;
    let mut wrong = Vec::new();
    for one in &crates {
        let faults = faults(root, one, &workspace);
        wrong.extend(faults.into_iter().map(|fault| format!("{}: {fault}", one.folder.display())));
    }
    if !wrong.is_empty() {
        return Err(format!("incomplete manifests:\n    {}", wrong.join("\n    ")));
    }
    println!("{} crates, all with a description, a licence, a README and keywords", crates.len());
    Ok(())
}

/// Returns what the first release still needs: the address of the repository in each manifest, in CODEOWNERS and in the
/// links that PyPI shows, and pages that install from crates.io and PyPI. `None` if nothing is missing.
pub(crate) fn before_first_release(root: &Path, pages: &[PathBuf]) -> Result<Option<String>> {
    let mut missing = Vec::new();
    if address::declared(root)?.is_none() {
        missing.push("`repository` in `[workspace.package]` of Cargo.toml".to_owned());
    }
    for one in published(root)? {
        if !has_line(&one.manifest, "repository.workspace = true") {
            let file = one.folder.join("Cargo.toml");
            missing.push(format!("`repository.workspace = true` in {}", in_pages(&file)));
        }
    }
    for (folder, _) in PROJECTS {
        let file = places::in_folder(folder, "pyproject.toml");
        if !has_line(&places::read(root, &file)?, "[project.urls]") {
            missing.push(format!("`[project.urls]` in {}", in_pages(&file)));
        }
        let file = places::in_folder(folder, "README.md");
        let text = places::read(root, &file)?;
        let found = links::links(&text);
        missing.extend(found.iter().find(|link| !links::is_external(link.target)).map(|link| {
            let (file, target) = (in_pages(&file), link.target);
            format!("full addresses for the relative links in {file}, such as `{target}`, for PyPI")
        }));
    }
    if places::read(root, CODEOWNERS.as_ref())?.contains(PLACEHOLDER) {
        missing.push(format!("an owner instead of `{PLACEHOLDER}` in {CODEOWNERS}"));
    }
    for page in pages {
        let text = places::read(root, page)?.to_lowercase();
        for found in UNPUBLISHED.iter().filter(|found| text.contains(**found)) {
            missing.push(format!("{} has the text \"{found}\"", in_pages(page)));
        }
    }
    if missing.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!(
        "before the first release, docs/releasing.md asks for these changes:\n    {}",
        missing.join("\n    ")
    )))
}

/// Returns the address of the repository in `[workspace.package]`, which each published crate has.
pub(super) fn repository(root: &Path) -> Result<String> {
    address::declared(root)?
        .ok_or_else(|| "Cargo.toml has no `repository` in `[workspace.package]`".to_owned())
}

/// Returns what is wrong with a crate.
fn faults(root: &Path, one: &Published, workspace: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let folder = root.join(&one.folder);
    match text(&one.manifest, "description") {
        Some(text) if !text.is_empty() && !text.ends_with('.') => {}
        _ => faults.push("needs a `description` without a full stop".to_owned()),
    }
    for field in ["version", "edition", "license"] {
        if !has_line(&one.manifest, &format!("{field}.workspace = true")) {
            faults.push(format!("needs `{field}.workspace = true`"));
        }
    }
    for (field, most) in [("keywords", KEYWORDS.0), ("categories", CATEGORIES)] {
        let inherits = has_line(&one.manifest, &format!("{field}.workspace = true"));
        let words = list(if inherits { workspace } else { &one.manifest }, field);
        if words.is_empty() || words.len() > most {
            faults.push(format!("has {} `{field}`; crates.io shows 1 to {most}", words.len()));
        }
        let long = words.iter().find(|word| field == "keywords" && word.len() > KEYWORDS.1);
        faults.extend(long.map(|word| format!("`{word}` is too long for a keyword")));
    }
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let own = fs::read(folder.join(file)).ok();
        if own.is_none() || own != fs::read(root.join(file)).ok() {
            faults.push(format!("needs `{file}`, a link to that of the root"));
        }
    }
    if folder.join("tests").is_dir() && !has_line(&one.manifest, "exclude = [\"/tests/\"]") {
        faults.push("has tests that need files of the repository; exclude `/tests/`".to_owned());
    }
    if has_line(&one.manifest, "[features]")
        && !one.manifest.contains("[package.metadata.docs.rs]\nall-features = true\n")
    {
        faults.push("has features that docs.rs would not show; set `all-features`".to_owned());
    }
    let rust = match has_line(&one.manifest, "rust-version.workspace = true") {
        true => text(workspace, "rust-version"),
        false => text(&one.manifest, "rust-version"),
    };
    let readme = text(&one.manifest, "readme").map(|name| fs::read_to_string(folder.join(name)));
    match (rust, readme) {
        (None, _) => faults.push("needs a `rust-version`".to_owned()),
        (_, None | Some(Err(_))) => faults.push("needs a README and the field `readme`".to_owned()),
        (Some(rust), Some(Ok(readme))) => {
            let stated = readme.split("Rust ").skip(1).filter(|rest| rest.starts_with("1."));
            let stated = stated.map(|rest| rest.split([' ', ',']).next().unwrap_or_default());
            let other = stated.into_iter().find(|version| *version != rust);
            faults.extend(
                other.map(|other| {
                    format!("the README asks for Rust {other}, the manifest for {rust}")
                }),
            );
        }
    }
    faults
}

fn has_line(manifest: &str, line: &str) -> bool {
    manifest.lines().any(|l| l == line)
}

/// Returns the text of a field.
fn text<'a>(manifest: &'a str, field: &str) -> Option<&'a str> {
    let start = format!("{field} = \"");
    manifest.lines().find_map(|line| line.strip_prefix(&start)?.strip_suffix('"'))
}

/// Returns the texts in a list on one line.
fn list<'a>(manifest: &'a str, field: &str) -> Vec<&'a str> {
    let start = format!("{field} = [");
    let found = manifest.lines().find_map(|line| line.strip_prefix(&start)?.strip_suffix(']'));
    let words = found.unwrap_or_default().split(',');
    words.map(|word| word.trim().trim_matches('"')).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
    }

    #[test]
    fn manifests_are_complete() {
        assert_eq!(check(&root()), Ok(()));
    }

    /// A folder with a crate, two Python projects and a page that are ready for the first release. Dropping it removes
    /// the folder.
    struct Ready(PathBuf);

    impl Ready {
        const FILES: [(&str, &str); 8] = [
            ("Cargo.toml", "[workspace.package]\nrepository = \"https://example.org\"\n"),
            ("crates/dlbridge/Cargo.toml", "[package]\nrepository.workspace = true\n"),
            ("pyproject.toml", "[project.urls]\nSource = \"https://example.org\"\n"),
            ("conformance/pyproject.toml", "[project.urls]\nSource = \"https://example.org\"\n"),
            ("README.md", "[a](https://example.org/blob/main/a.md) `[b](b.md)`\n"),
            ("conformance/README.md", "A kit.\n"),
            (CODEOWNERS, "*  @owner/maintainers\n"),
            ("docs/page.md", "$ pip install dlbridge\n"),
        ];

        fn new() -> Self {
            let ready =
                Self(std::env::temp_dir().join(format!("xtask-first-{}", std::process::id())));
            Self::FILES.iter().for_each(|(file, text)| ready.write(file, text));
            ready
        }

        fn write(&self, file: &str, text: &str) {
            let file = self.0.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        fn missing(&self) -> Option<String> {
            before_first_release(&self.0, &["docs/page.md".into()]).unwrap()
        }
    }

    impl Drop for Ready {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn everything_that_the_first_release_needs_is_named() {
        let ready = Ready::new();
        assert_eq!(ready.missing(), None);
        for (file, text) in Ready::FILES {
            let faults: &[&str] = match file {
                "README.md" | "conformance/README.md" => {
                    &["[a](b.md)\n", "[a]\n\n[a]: #b\n", "![a](b.svg)\n"]
                }
                CODEOWNERS => &["# Owners.\n\n*.rs  @OWNER/rust\n"],
                "docs/page.md" => &[
                    "dlbridge is not on PyPI yet.\n",
                    "No version has been released yet.\n",
                    "The repository lacks an address.\n",
                    "$ cargo add dlbridge --path path/to/dlbridge/crates/dlbridge\n",
                ],
                _ => &["[package]\n"],
            };
            for wrong in faults {
                ready.write(file, wrong);
                let missing = ready.missing().unwrap_or_default();
                assert!(missing.contains(&format!(" {file}")), "{file}, {wrong}: {missing}");
            }
            ready.write(file, text);
        }
    }

    #[test]
    fn pages_of_this_repository_are_found() {
        let pages = places::files(&root()).unwrap();
        let missing = before_first_release(&root(), &pages).unwrap().unwrap_or_default();
        // Found by the file system, not by git.
        let mut found = links::pages(&root()).unwrap();
        found.extend(published(&root()).unwrap().iter().map(|one| one.folder.join("README.md")));
        for page in found {
            let text = fs::read_to_string(root().join(&page)).unwrap().to_lowercase();
            let is_reported = missing.contains(&format!("    {} has the text", in_pages(&page)));
            let is_wrong = UNPUBLISHED.iter().any(|wrong| text.contains(wrong));
            assert_eq!(is_reported, is_wrong, "{}, if git has it: {missing}", page.display());
        }
    }

    #[test]
    fn published_crates_are_all_except_two() {
        let names: Vec<_> = published(&root()).unwrap().into_iter().map(|one| one.name).collect();
        assert_eq!(names.len(), folders(&root()).len() - 2, "{names:?}");
        assert!(names.iter().any(|name| name == "dlbridge-arrow"), "{names:?}");
        assert!(!names.iter().any(|name| name == "dlbridge-testing"), "{names:?}");
    }

    #[test]
    fn incomplete_manifest_is_described() {
        let root = root();
        let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let mut arrow =
            published(&root).unwrap().into_iter().find(|one| one.name == "dlbridge-arrow").unwrap();
        assert_eq!(faults(&root, &arrow, &workspace), Vec::<String>::new());
        arrow.manifest = "[package]\nname = \"dlbridge-arrow\"\nreadme = \"README.md\"\n\
            keywords = [\"a\", \"a-very-long-word-for-it\"]\nrust-version = \"1.70\"\n[features]\n"
            .to_owned();
        let found = faults(&root, &arrow, &workspace).join("\n");
        for part in [
            "`description`",
            "`license.workspace = true`",
            "has 0 `categories`",
            "`a-very-long-word-for-it` is too long",
            "docs.rs",
            "the README asks for Rust 1.88, the manifest for 1.70",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
    }
}
