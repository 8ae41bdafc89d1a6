//! `cargo xtask publish-crates`: uploads the crates that crates.io does not have in the version of the pushed tag. So a
//! second call continues after an upload that stopped in the middle.

use std::process::{Command, Output};

use super::metadata::{self, published};
use super::version::Version;
use super::{places, source};
use crate::{Result, Workplace, process};

/// Uploads the missing crates, each after its dependencies.
pub(crate) fn run(workplace: &Workplace) -> Result<()> {
    source::is_committed(workplace)?;
    let version = places::check(&workplace.root)?;
    source::is_tagged(workplace, &version)?;
    if let Some(missing) =
        metadata::before_first_release(&workplace.root, &places::files(&workplace.root)?)?
    {
        return Err(missing);
    }
    let crates = published(&workplace.root)?;
    let names: Vec<_> = crates.iter().map(|one| one.name.as_str()).collect();
    let repository = metadata::repository(&workplace.root)?;
    let there = there(&names, |name| is_on_crates_io(name, &version, &repository))?;
    println!("crates.io has {} of {} crates in {version}", there.len(), names.len());
    match upload(workplace, &names, &there) {
        Some(mut upload) => process::run_for_hours(&mut upload),
        None => Ok(()),
    }
}

/// Returns the crates that a registry has. An error of the registry is not an answer.
fn there<'a>(names: &[&'a str], has: impl Fn(&str) -> Result<bool>) -> Result<Vec<&'a str>> {
    let mut there = Vec::new();
    for &name in names {
        if has(name)? {
            there.push(name);
        }
    }
    Ok(there)
}

/// Returns the command that uploads all crates except those that are there, or `None` if none is missing. The dry run
/// has built each package, so no code of a dependency runs beside the token here.
fn upload(workplace: &Workplace, names: &[&str], there: &[&str]) -> Option<Command> {
    if there.len() == names.len() {
        return None;
    }
    let mut publish =
        workplace.cargo(&["publish", "--workspace", "--locked", "--no-verify", "--registry"]);
    publish.arg("crates-io").args(there.iter().flat_map(|name| ["--exclude", name]));
    Some(publish)
}

/// Asks crates.io for a version of a crate. Cargo does not find a version that was yanked, and then refuses the upload.
fn is_on_crates_io(name: &str, version: &Version, repository: &str) -> Result<bool> {
    let of = format!("{name}@{version}");
    let mut info = Command::new("cargo");
    info.args(["info", "--color", "never", "--registry", "crates-io", &of]);
    // Outside of the workspace, whose own crate has the same name.
    info.current_dir(std::env::temp_dir());
    let output = info.output().map_err(|e| format!("`cargo info {of}` did not start: {e}"))?;
    answer(&of, repository, &output)
}

/// Returns whether `cargo info` found a version of this project. It fails in the same way without a network, so its
/// message decides.
fn answer(of: &str, repository: &str, output: &Output) -> Result<bool> {
    if output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        let found = text.lines().find_map(|line| line.strip_prefix("repository: "));
        return match found.map(str::trim) {
            Some(found) if found == repository => Ok(true),
            found => Err(format!(
                "crates.io has {of} from the repository {}, not from {repository}, so nothing was uploaded; another \
                 project may own the name",
                found.unwrap_or("(none)")
            )),
        };
    }
    let text = String::from_utf8_lossy(&output.stderr);
    match text.contains(&format!("could not find `{of}` in registry")) {
        true => Ok(false),
        false => Err(format!(
            "crates.io did not answer whether it has {of}, so nothing was uploaded; try again: {}",
            text.trim()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["dlbridge-sys", "dlbridge", "dlbridge-ops"];

    fn arguments(there: &[&str]) -> Option<String> {
        let workplace = Workplace { root: "root".into(), target: "target".into() };
        let upload = upload(&workplace, &NAMES, there)?;
        let words: Vec<_> = upload.get_args().map(|word| word.to_string_lossy()).collect();
        Some(words.join(" "))
    }

    #[test]
    fn only_missing_crates_are_uploaded() {
        const ALL: &str = "publish --workspace --locked --no-verify --registry crates-io";
        assert_eq!(arguments(&[]).as_deref(), Some(ALL));
        let rest = format!("{ALL} --exclude dlbridge-sys --exclude dlbridge");
        assert_eq!(arguments(&NAMES[..2]), Some(rest));
        assert_eq!(arguments(&NAMES), None);
    }

    #[test]
    fn crates_of_the_registry_are_found() {
        assert_eq!(there(&NAMES, |name| Ok(name.contains("s"))), Ok(vec![NAMES[0], NAMES[2]]));
        assert_eq!(there(&NAMES, |_| Err("down".into())), Err("down".into()));
    }

    const OURS: &str = "https://example.org/dlbridge";

    #[cfg(unix)]
    fn output(status: i32, stdout: &str, stderr: &str) -> Output {
        use std::os::unix::process::ExitStatusExt;
        Output {
            status: std::process::ExitStatus::from_raw(status << 8),
            stdout: stdout.as_bytes().to_vec(),
            stderr: stderr.as_bytes().to_vec(),
        }
    }

    #[cfg(unix)]
    #[test]
    fn crate_of_another_repository_is_refused() {
        let of = "dlbridge-gpu@0.1.0";
        let info =
            |line: &str| output(0, &format!("dlbridge-gpu #gpu\nversion: 0.1.0\n{line}"), "");
        assert_eq!(answer(of, OURS, &info(&format!("repository: {OURS}\n"))), Ok(true));
        for line in [
            "",
            "repository: https://example.org/dlbridge-gpu\n",
            "homepage: https://example.org/dlbridge\n",
        ] {
            let error = answer(of, OURS, &info(line)).unwrap_err();
            assert!(error.contains("another project may own the name"), "{error}");
        }
    }

    #[test]
    fn changed_file_is_not_uploaded() {
        let root = std::env::temp_dir().join(format!("xtask-publish-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let workplace = Workplace { root: root.clone(), target: root.join("target") };
        process::run(workplace.command("git").args(["init", "--quiet"])).unwrap();
        std::fs::write(root.join("new.txt"), "new").unwrap();
        let error = run(&workplace).unwrap_err();
        assert!(error.contains("are not committed"), "{error}");
        let _ = std::fs::remove_dir_all(&root);
    }

    // An exit status is made from a number in another way on Windows.
    #[cfg(unix)]
    #[test]
    fn error_of_the_network_is_not_a_missing_crate() {
        let of = "dlbridge@0.1.0";
        let answer = |of, output| answer(of, OURS, &output);
        let missing = "    Updating crates.io index\nerror: could not find `dlbridge@0.1.0` in registry \
            `https://github.com/rust-lang/crates.io-index`\n";
        assert_eq!(answer(of, output(101, "", missing)), Ok(false));
        for other in [
            "error: failed to query replaced source registry `crates-io`\n\nCaused by:\n  [7] Could not connect to server",
            "error: could not find `dlbridge@0.1.01` in registry `x`",
            "",
        ] {
            let error = answer(of, output(101, "", other)).unwrap_err();
            assert!(error.contains("nothing was uploaded"), "{error}");
        }
    }
}
