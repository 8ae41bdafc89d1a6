//! The commit that is released: without changes beside it, under a free tag, in a clone of its own.

use std::env;

use super::version::Version;
use crate::workplace::remove_folder;
use crate::{Result, Workplace, process};

/// The branch that a released commit is on.
const MAIN: &str = "origin/main";

/// Checks that the commit has everything: no file is changed, and none is new.
pub(crate) fn is_committed(workplace: &Workplace) -> Result<()> {
    let mut git = workplace.command("git");
    let status = process::answer(git.args(["status", "--porcelain"]))
        .ok_or("`git status` failed; a release is made in a clone of the repository")?;
    if status.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> = status.lines().collect();
    Err(format!(
        "{} files are not committed; commit or remove them:\n    {}",
        lines.len(),
        lines.join("\n    ")
    ))
}

/// Checks that the tag of a version does not exist, or names this commit, and that no other tag was pushed.
pub(crate) fn tag_is_free(workplace: &Workplace, version: &Version) -> Result<()> {
    let tag = version.tag();
    check_pushed(workplace, pushed_tag().as_deref(), &tag)?;
    let tagged = commit(workplace, &format!("refs/tags/{tag}"));
    match tagged {
        None => println!("{tag} is free"),
        Some(tagged) if Some(&tagged) == commit(workplace, "HEAD").as_ref() => {
            println!("{tag} is this commit");
        }
        Some(tagged) => {
            return Err(format!(
                "the tag {tag} is another commit, {tagged}; a published version cannot change, so \
                 choose a later one with `cargo xtask bump`"
            ));
        }
    }
    Ok(())
}

/// Checks that the tag of a version names this commit, which the main branch contains, and that no other tag was pushed.
pub(crate) fn is_tagged(workplace: &Workplace, version: &Version) -> Result<()> {
    let tag = version.tag();
    check_pushed(workplace, pushed_tag().as_deref(), &tag)?;
    let head = commit(workplace, "HEAD").ok_or("found no commit; run this task in a clone")?;
    match commit(workplace, &format!("refs/tags/{tag}")) {
        Some(tagged) if tagged == head => is_merged(workplace, &tag),
        Some(tagged) => Err(format!(
            "the tag {tag} is {tagged}, but this commit is {head}; check out the tag with `git switch --detach {tag}`"
        )),
        None => Err(format!(
            "the tag {tag} does not exist here; a release is a tag, which docs/releasing.md makes"
        )),
    }
}

/// Returns the commit that a name stands for.
fn commit(workplace: &Workplace, name: &str) -> Option<String> {
    let name = format!("{name}^{{commit}}");
    process::answer(workplace.command("git").args(["rev-parse", "--verify", "--quiet", &name]))
}

/// Returns the tag that started the workflow, or `None` outside of one, and if no tag started it.
pub(crate) fn pushed_tag() -> Option<String> {
    env::var("GITHUB_REF_TYPE").ok().filter(|kind| kind == "tag")?;
    env::var("GITHUB_REF_NAME").ok()
}

/// Checks that the pushed tag is that of the version, which the workflow would publish, and that its commit was merged.
fn check_pushed(workplace: &Workplace, pushed: Option<&str>, tag: &str) -> Result<()> {
    match pushed {
        None => Ok(()),
        Some(pushed) if pushed == tag => is_merged(workplace, tag),
        Some(pushed) => Err(format!(
            "the pushed tag is {pushed}, but the version of this commit has the tag {tag}; delete the pushed tag, and \
             push {tag}, or choose another version with `cargo xtask bump`"
        )),
    }
}

/// Checks that the main branch has this commit. A tag on another one would publish what no pull request reviewed.
fn is_merged(workplace: &Workplace, tag: &str) -> Result<()> {
    if commit(workplace, MAIN).is_none() {
        return Err(format!("{MAIN} does not exist here; fetch all branches before a release"));
    }
    let mut git = workplace.command("git");
    if process::succeeds(git.args(["merge-base", "--is-ancestor", "HEAD", MAIN])) {
        return Ok(());
    }
    Err(format!(
        "{MAIN} does not contain the commit of the tag {tag}; delete the tag, merge the commit by a pull request, \
         and tag the merged one"
    ))
}

/// Returns the versions whose tags this commit contains.
pub(crate) fn tagged_versions(workplace: &Workplace) -> Result<Vec<Version>> {
    let mut git = workplace.command("git");
    let tags = process::answer(git.args(["tag", "--list", "v[0-9]*", "--merged", "HEAD"]))
        .ok_or("`git tag` failed; a release is made in a clone of the repository")?;
    Ok(tags.lines().filter_map(|tag| tag.strip_prefix('v')?.parse().ok()).collect())
}

/// Returns the names of all packages and targets in the manifests at a tag.
pub(crate) fn names_of_packages(workplace: &Workplace, tag: &str) -> Result<Vec<String>> {
    let mut git = workplace.command("git");
    git.args(["grep", "-h", "-e", "^name = \"", tag, "--", "*Cargo.toml"]);
    let lines = process::answer(&mut git).ok_or_else(|| format!("{tag} has no manifest"))?;
    let name = |line: &str| Some(line.strip_prefix("name = \"")?.split('"').next()?.to_owned());
    Ok(lines.lines().filter_map(name).collect())
}

/// Returns the clone of the commit, which may not exist yet.
pub(crate) fn cloned(workplace: &Workplace) -> Workplace {
    Workplace {
        root: workplace.target.join("release-clone"),
        target: workplace.target.join("release-build"),
    }
}

/// Clones the commit.
pub(crate) fn clone(workplace: &Workplace) -> Result<()> {
    let clone = cloned(workplace).root;
    remove_folder(&clone)?;
    let mut git = workplace.command("git");
    process::run(git.args(["clone", "--quiet", "."]).arg(&clone))
}

/// Returns the time of the commit in seconds, which archives then have as the time of their files.
pub(crate) fn time(workplace: &Workplace) -> Option<String> {
    process::answer(workplace.command("git").args(["log", "-1", "--format=%ct"]))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns a workplace in an empty folder.
    fn temporary(name: &str) -> Workplace {
        let root = env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        Workplace { target: root.join("target"), root }
    }

    fn git(workplace: &Workplace, words: &[&str]) {
        let mut git = workplace.command("git");
        let done = git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words).output();
        assert!(done.is_ok_and(|done| done.status.success()), "{words:?}");
    }

    #[test]
    fn pushed_tag_of_another_version_is_refused() {
        let nowhere = Workplace { root: env::temp_dir(), target: env::temp_dir() };
        assert_eq!(check_pushed(&nowhere, None, "v0.2.0"), Ok(()));
        let error = check_pushed(&nowhere, Some("v0.3.0"), "v0.2.0").unwrap_err();
        assert!(error.starts_with("the pushed tag is v0.3.0"), "{error}");
    }

    #[test]
    fn pushed_tag_of_an_unmerged_commit_is_refused() {
        let workplace = temporary("merged");
        let check = || check_pushed(&workplace, Some("v0.2.0"), "v0.2.0");
        git(&workplace, &["init", "--quiet"]);
        git(&workplace, &["commit", "--quiet", "--allow-empty", "--message", "one"]);
        let error = check().unwrap_err();
        assert!(error.contains("origin/main does not exist here"), "{error}");
        git(&workplace, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
        assert_eq!(check(), Ok(()));
        git(&workplace, &["commit", "--quiet", "--allow-empty", "--message", "two"]);
        let error = check().unwrap_err();
        assert!(error.contains("origin/main does not contain the commit"), "{error}");
        // Later commits on the main branch do not matter.
        git(&workplace, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
        git(&workplace, &["checkout", "--quiet", "--detach", "HEAD~"]);
        assert_eq!(check(), Ok(()));
        let _ = fs::remove_dir_all(&workplace.root);
    }

    #[test]
    fn only_the_commit_of_the_tag_is_tagged() {
        let workplace = temporary("tagged");
        let git = |words: &[&str]| git(&workplace, words);
        let version: Version = "0.2.0".parse().unwrap();
        let error = |part: &str| {
            let error = is_tagged(&workplace, &version).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        git(&["init", "--quiet"]);
        error("found no commit");
        git(&["commit", "--quiet", "--allow-empty", "--message", "one"]);
        error("does not exist here");
        git(&["tag", "--annotate", "--message", "a", "v0.2.0"]);
        error("origin/main does not exist here");
        git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
        assert_eq!(is_tagged(&workplace, &version), Ok(()));
        git(&["commit", "--quiet", "--allow-empty", "--message", "two"]);
        error("check out the tag");
        git(&["tag", "--delete", "v0.2.0"]);
        git(&["tag", "v0.2.0"]);
        error("does not contain the commit of the tag");
        let _ = fs::remove_dir_all(&workplace.root);
    }
}
