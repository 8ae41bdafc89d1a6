//! `cargo xtask workflows`: checks the files of `.github`, so that no workflow calls a task that does not exist.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::python::Venv;
use crate::workplace::names;
use crate::{Result, Workplace, arguments, pins, process};

/// The folder of the workflows.
const WORKFLOWS: &str = ".github/workflows";

/// The folder of the actions that the workflows share.
const ACTIONS: &str = ".github/actions";

/// The folder of the forms for issues.
const FORMS: &str = ".github/ISSUE_TEMPLATE";

/// The file in [`FORMS`] that is not a form.
const FORMS_CONFIG: &str = "config.yml";

const DEPENDABOT: &str = ".github/dependabot.yml";

/// The start of a task's command line.
const TASK: &str = "cargo xtask";

/// A `cargo xtask` line in a workflow.
#[derive(Debug, PartialEq)]
struct Call {
    file: String,
    line: usize,
    /// The words after `cargo xtask`.
    words: Vec<String>,
}

/// Checks the `cargo xtask` lines, and then the files against their schemas and for insecure settings.
pub(crate) fn run(workplace: &Workplace) -> Result<()> {
    check_calls(&workplace.root)?;
    let venv = Venv::made(workplace)?;
    venv.install(pins::WORKFLOW_TOOLS)?;
    let inside = |folder: &str| -> Vec<String> {
        names(&workplace.root.join(folder)).iter().map(|name| format!("{folder}/{name}")).collect()
    };
    let actions = inside(ACTIONS).into_iter().map(|folder| format!("{folder}/action.yml"));
    let schema = |schema: &str, files: Vec<String>| {
        let mut check = workplace.command(venv.program("check-jsonschema"));
        process::run(check.args(["--builtin-schema", schema]).args(files))
    };
    schema("vendor.github-workflows", inside(WORKFLOWS))?;
    schema("vendor.github-actions", actions.collect())?;
    schema("vendor.dependabot", vec![DEPENDABOT.to_owned()])?;
    let (config, forms) = inside(FORMS).into_iter().partition(|file| file.ends_with(FORMS_CONFIG));
    schema("vendor.github-issue-forms", forms)?;
    schema("vendor.github-issue-config", config)?;
    process::run(&mut security(workplace, &venv))
}

/// Returns the command that looks for insecure settings. It asks no server, so that it needs no token.
fn security(workplace: &Workplace, venv: &Venv<'_>) -> Command {
    let mut zizmor = workplace.command(venv.program("zizmor"));
    zizmor.args(["--offline", "--no-progress", "--pedantic", ".github"]);
    zizmor
}

/// Fails if a workflow calls a task, or gives an option, that the command line does not have.
fn check_calls(root: &Path) -> Result<()> {
    let calls = calls(root)?;
    let wrong: Vec<_> = calls
        .iter()
        .filter_map(|Call { file, line, words }| {
            let reason = arguments::parse(words).err()?;
            Some(format!("{file}:{line}: `{TASK} {}`: {reason}", words.join(" ")))
        })
        .collect();
    if !wrong.is_empty() {
        return Err(format!("workflows with wrong command lines:\n    {}", wrong.join("\n    ")));
    }
    println!("{} command lines in {WORKFLOWS}", calls.len());
    Ok(())
}

/// Returns the `cargo xtask` lines of all workflows.
fn calls(root: &Path) -> Result<Vec<Call>> {
    let mut calls = Vec::new();
    for name in names(&root.join(WORKFLOWS)) {
        let file = format!("{WORKFLOWS}/{name}");
        let text = fs::read_to_string(root.join(&file)).map_err(|e| format!("{file}: {e}"))?;
        calls.extend(calls_in(&file, &text));
    }
    Ok(calls)
}

/// Returns the `cargo xtask` lines of a workflow, outside of comments.
fn calls_in(file: &str, text: &str) -> Vec<Call> {
    let lines = text.lines().zip(1..);
    let in_line = |(text, line): (&str, usize)| {
        let text = text.split(" #").next().filter(|text| !text.trim_start().starts_with('#'))?;
        let (_, rest) = text.split_once(TASK)?;
        let words = rest.split_whitespace().map(str::to_owned).collect();
        Some(Call { file: file.to_owned(), line, words })
    };
    lines.filter_map(in_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn every_command_line_of_the_workflows_is_accepted() {
        check_calls(root()).unwrap();
    }

    #[test]
    fn every_workflow_calls_a_task() {
        let calls = calls(root()).unwrap();
        let workflows = names(&root().join(WORKFLOWS));
        assert!(workflows.len() >= 5, "{workflows:?}");
        for name in workflows {
            let file = format!("{WORKFLOWS}/{name}");
            assert!(calls.iter().any(|call| call.file == file), "{file}");
        }
    }

    #[test]
    fn command_lines_are_found_with_their_line() {
        let text = "steps:\n  - run: cargo xtask test --all # slow\n  # cargo xtask old\n";
        let words = vec!["test".to_owned(), "--all".to_owned()];
        assert_eq!(calls_in("a.yml", text), [Call { file: "a.yml".into(), line: 2, words }]);
    }

    #[test]
    fn unknown_task_in_a_workflow_is_refused() {
        let root = std::env::temp_dir().join("xtask-workflows");
        fs::create_dir_all(root.join(WORKFLOWS)).unwrap();
        fs::write(root.join(WORKFLOWS).join("a.yml"), "- run: cargo xtask tset --all\n").unwrap();
        let error = check_calls(&root).unwrap_err();
        assert!(error.contains("a.yml:1: `cargo xtask tset --all`: unknown task"), "{error}");
    }
}
