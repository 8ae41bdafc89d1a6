//! Follows pages for newcomers from top to bottom, each in an empty folder outside the repository: runs the commands of
//! its `sh` blocks, and saves its programs under the names on the page. The names of published crates and distributions
//! stand for those of this repository, released or not.

use std::path::{Path, PathBuf};
use std::{env, fs, process::Command};

use crate::python::Venv;
use crate::release::distributions::PROJECTS;
use crate::release::metadata::published;
use crate::steps::Finished;
use crate::{Result, Workplace, pins, process};

/// The pages, from the root, each with a short name.
pub(crate) const PAGES: &[(&str, &str)] = &[
    ("template", "examples/template/README.md"),
    ("python", "docs/getting-started/python.md"),
    ("rust", "docs/getting-started/rust.md"),
    ("pyo3", "docs/getting-started/pyo3.md"),
    ("c", "docs/getting-started/c.md"),
];

/// The line that sets the path of the clone, if a page uses [`PATH_OF_CLONE`]. The script sets it to this repository.
const CLONE: &str = "CLONE=";

/// The path of the clone in commands.
const PATH_OF_CLONE: &str = "$CLONE";

/// The start of the command that adds a crate.
const ADD: &str = "cargo add ";

/// The start of the line before a program: the file name comes next, in backticks.
const SAVE: &str = "Save this as `";

/// Ends a program in the script. No page has such a line.
const END: &str = "END OF THE PROGRAM";

/// Follows a page in an empty folder.
pub(crate) fn follow(
    workplace: &Workplace,
    venv: &Venv<'_>,
    (name, page): (&str, &str),
) -> Result<Finished> {
    if cfg!(windows) {
        return Ok(Finished::Notice("the page's commands need a Unix shell".into()));
    }
    let text = fs::read_to_string(workplace.root.join(page)).map_err(|e| format!("{page}: {e}"))?;
    let crates = crates(&workplace.root)?;
    let script = script(&text, &workplace.root, &crates).map_err(|e| format!("{page}: {e}"))?;
    let folder = env::temp_dir().join(format!("dlbridge-{name}-{}", std::process::id()));
    let result = in_folder(workplace, venv, &folder, &script, &crates);
    let _ = fs::remove_dir_all(&folder);
    result.map(|()| Finished::Passed)
}

/// Returns the name and the folder of each published crate.
fn crates(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    Ok(published(root)?.into_iter().map(|one| (one.name, root.join(one.folder))).collect())
}

fn in_folder(
    workplace: &Workplace,
    venv: &Venv<'_>,
    folder: &Path,
    script: &str,
    crates: &[(String, PathBuf)],
) -> Result<()> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::create_dir_all(folder.join(".cargo")).map_err(failed)?;
    fs::write(folder.join(".cargo/config.toml"), patch(crates)).map_err(failed)?;
    let pinned = [pins::NUMPY, pins::MATURIN].iter().chain(pins::TEST_TOOLS);
    let mut pinned: Vec<_> = pinned.map(|&one| one.to_owned()).collect();
    if !installs_clone(script) {
        for (project, name) in PROJECTS {
            pinned.push(format!("{name} @ {}", url(&venv.built(project)?)));
        }
    }
    let constraints = folder.join("constraints.txt");
    fs::write(&constraints, pinned.join("\n")).map_err(failed)?;
    let file = folder.join("commands.sh");
    fs::write(&file, script).map_err(failed)?;
    let mut shell = Command::new("sh");
    shell.arg("-ex").arg(&file).current_dir(folder);
    // pip builds dlbridge without optimisation, and the next page reuses the build.
    shell.env("CARGO_TARGET_DIR", workplace.target.join("template"));
    shell.env("MATURIN_PEP517_ARGS", "--profile dev");
    // The programs only run once.
    shell.env("CARGO_PROFILE_DEV_DEBUG", "0");
    shell.env("PIP_CONSTRAINT", &constraints);
    shell.env("DLPACK_INCLUDE", venv.dlpack_include()?);
    // So that `python3` is new enough.
    let path = env::var_os("PATH").unwrap_or_default();
    let programs = venv.program("python").parent().map(ToOwned::to_owned);
    let path = programs.into_iter().chain(env::split_paths(&path));
    shell.env("PATH", env::join_paths(path).map_err(|e| e.to_string())?);
    process::run(&mut shell)
}

/// Returns the settings of Cargo that replace the crates of crates.io by those of this repository.
fn patch(crates: &[(String, PathBuf)]) -> String {
    let line = |(name, folder): &(String, PathBuf)| {
        format!("{name} = {{ path = '{}' }}\n", folder.display())
    };
    format!("[patch.crates-io]\n{}", crates.iter().map(line).collect::<String>())
}

/// Returns whether pip installs the clone. It would then refuse a built wheel as a constraint.
fn installs_clone(script: &str) -> bool {
    script.lines().any(|line| line.contains("pip install") && line.contains(PATH_OF_CLONE))
}

/// Returns the address of a file for pip.
fn url(file: &Path) -> String {
    format!("file://{}", file.display().to_string().replace('%', "%25").replace(' ', "%20"))
}

/// Returns a command that adds each published crate by its folder. Even if a crate is patched, `cargo add` searches
/// crates.io for it.
fn with_folders(command: &str, crates: &[(String, PathBuf)]) -> String {
    let mut parts = command.split(ADD);
    let mut with = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (word, rest) = part.split_at(part.find(' ').unwrap_or(part.len()));
        let name = word.split('@').next();
        with += ADD;
        match crates.iter().find(|(published, _)| name == Some(published)) {
            Some((name, folder)) if !rest.contains("--path") => {
                with += &format!("{name} --path '{}'{rest}", folder.display());
            }
            _ => with += part,
        }
    }
    with
}

/// Returns the commands of a page and its programs as one shell script, with the path of the clone and the folders of
/// published crates.
fn script(page: &str, clone: &Path, crates: &[(String, PathBuf)]) -> Result<String> {
    let mut script = String::new();
    let (mut named, mut used, mut commands) = (false, false, 0);
    // The language of the block, and the file to save it in.
    let mut block: Option<(&str, Option<&str>)> = None;
    let mut save = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), block) {
            (Some(language), None) => {
                let file = (language != "sh").then(|| save.take()).flatten();
                if let Some(file) = file {
                    script += &format!("cat > {file} <<'{END}'\n");
                }
                block = Some((language, file));
            }
            (Some(_), Some((_, file))) => {
                if file.is_some() {
                    script += &format!("{END}\n");
                }
                block = None;
            }
            (None, Some(("sh", _))) if line.starts_with(CLONE) => {
                named = true;
                script += &format!("{CLONE}'{}'\n", clone.display());
            }
            (None, Some(("sh", _))) => {
                commands += 1;
                used |= line.contains(PATH_OF_CLONE);
                script += &format!("{}\n", with_folders(line, crates));
            }
            (None, Some((_, Some(_)))) => script += &format!("{line}\n"),
            (None, Some(_)) => {}
            (None, None) => {
                if let Some(name) = line.strip_prefix(SAVE).and_then(|rest| rest.split('`').next())
                {
                    save = Some(name);
                }
            }
        }
    }
    if let Some(file) = save {
        return Err(format!("no block follows `{SAVE}{file}`"));
    }
    match (named, used, commands) {
        (_, _, 0) => Err("lacks a command in an `sh` block".to_owned()),
        (false, true, _) => {
            Err(format!("uses {PATH_OF_CLONE} without a line `{CLONE}...` in an `sh` block"))
        }
        _ => Ok(script),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_copy::root;

    /// Returns the script of a page with a clone in `/r`, which has one crate.
    fn scripted(page: &str) -> Result<String> {
        script(page, Path::new("/r"), &[("dlbridge".into(), "/r/crates/dlbridge".into())])
    }

    #[test]
    fn commands_are_those_of_sh_blocks() {
        let page = "a\n```sh\nCLONE=~/x\ncp $CLONE y\n```\nb\n```rs\nc\n```\n```sh\nd\n```\n";
        assert_eq!(scripted(page).unwrap(), "CLONE='/r'\ncp $CLONE y\nd\n");
        assert!(scripted("```console\n$ d\n```\n").unwrap_err().contains("lacks a command"));
    }

    #[test]
    fn clone_is_optional_until_a_command_uses_it() {
        assert_eq!(scripted("```sh\nd\n```\n").unwrap(), "d\n");
        let error = scripted("```sh\ncp $CLONE y\n```\n").unwrap_err();
        assert!(error.contains("without a line `CLONE="), "{error}");
    }

    #[test]
    fn published_crate_is_that_of_this_repository() {
        for (command, expected) in [
            ("cargo add dlbridge", "cargo add dlbridge --path '/r/crates/dlbridge'"),
            (
                "cargo add dlbridge@0.1 --features a && cargo add b@0.17",
                "cargo add dlbridge --path '/r/crates/dlbridge' --features a && cargo add b@0.17",
            ),
            ("cargo add dlbridge --path x", "cargo add dlbridge --path x"),
            ("cargo add dlbridge-other", "cargo add dlbridge-other"),
            ("pip install dlbridge", "pip install dlbridge"),
        ] {
            assert_eq!(scripted(&format!("```sh\n{command}\n```\n")), Ok(format!("{expected}\n")));
        }
        let crates = crates(&root()).unwrap();
        let settings = patch(&crates);
        for name in ["dlbridge", "dlbridge-pyo3", "dlbridge-arrow"] {
            let folder = settings.lines().find_map(|line| {
                line.strip_prefix(&format!("{name} = {{ path = '"))?.strip_suffix("' }")
            });
            let manifest = fs::read_to_string(Path::new(folder.unwrap()).join("Cargo.toml"));
            assert!(manifest.unwrap().contains(&format!("name = \"{name}\"\n")), "{settings}");
        }
    }

    #[test]
    fn built_wheel_is_left_out_if_the_clone_is_installed() {
        assert!(installs_clone("CLONE='/r'\npip install \"$CLONE\" numpy\n"));
        assert!(!installs_clone("CLONE='/r'\ncp $CLONE a\npip install dlbridge\n"));
        assert_eq!(url(Path::new("/a b/c%d.whl")), "file:///a%20b/c%25d.whl");
    }

    #[test]
    fn program_is_saved_under_the_name_on_the_page() {
        let page =
            "Save this as `a/b.rs`:\n\n```rust\nc\n\nd\n```\n```sh\ne\n```\n```rust\nf\n```\n";
        let expected = format!("cat > a/b.rs <<'{END}'\nc\n\nd\n{END}\ne\n");
        assert_eq!(scripted(page).unwrap(), expected);
    }

    #[test]
    fn name_without_a_program_is_refused() {
        let page = "```sh\nb\n```\nSave this as `a`:\n";
        assert!(scripted(page).unwrap_err().contains("Save this as `a"));
    }

    #[test]
    fn every_page_can_be_followed() {
        let crates = crates(&root()).unwrap();
        for (_, page) in PAGES {
            let text = fs::read_to_string(root().join(page)).unwrap();
            let script = script(&text, &root(), &crates);
            let script = script.unwrap_or_else(|error| panic!("{page}: {error}"));
            // The page uses this repository: its folders, or the built wheel of a distribution.
            let folder = format!("'{}", root().display());
            let is_wheel = |line: &str| line.contains("pip install") && line.contains("dlbridge");
            assert!(script.contains(&folder) || script.lines().any(is_wheel), "{page}: {script}");
        }
    }
}
