//! `cargo xtask workflows`: checks the files of `.github`, so that no workflow calls a task, a job, a step or an artifact
//! that does not exist.
//!
//! | module | |
//! | --- | --- |
//! | `yaml` | reads the files |
//! | `commands` | the `cargo xtask` command lines |
//! | `references` | names of jobs, steps, inputs, the matrix and local actions |
//! | `artifacts` | downloads and their uploads |

mod artifacts;
mod commands;
mod references;
mod yaml;

use std::fs;
use std::path::Path;
use std::process::Command;

use commands::{Call, TASK, calls_in};
use yaml::Yaml;

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

/// Checks the `cargo xtask` lines and the references, and then the files against their schemas and for insecure settings.
pub(crate) fn run(workplace: &Workplace) -> Result<()> {
    check_calls(&workplace.root)?;
    check_references(&workplace.root)?;
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
    println!("{} command lines in workflows and actions", calls.len());
    Ok(())
}

/// Fails if a workflow or action uses a name that nothing defines, or an artifact that nothing uploads.
fn check_references(root: &Path) -> Result<()> {
    let files = files(root)?;
    let mut wrong = Vec::new();
    for (file, yaml) in &files {
        let faults = references::faults(root, yaml).into_iter().chain(artifacts::faults(yaml));
        wrong.extend(faults.map(|(line, fault)| format!("{file}:{line}: {fault}")));
    }
    if !wrong.is_empty() {
        return Err(format!("wrong references:\n    {}", wrong.join("\n    ")));
    }
    println!("references in {} workflows and actions", files.len());
    Ok(())
}

/// Returns the `cargo xtask` lines of all workflows and actions.
fn calls(root: &Path) -> Result<Vec<Call>> {
    let files = files(root)?;
    Ok(files.iter().flat_map(|(file, yaml)| calls_in(file, yaml)).collect())
}

/// Returns the workflows and the actions.
fn files(root: &Path) -> Result<Vec<(String, Yaml)>> {
    let inside = |folder: &str| names(&root.join(folder)).into_iter();
    let workflows = inside(WORKFLOWS).map(|name| format!("{WORKFLOWS}/{name}"));
    let actions = inside(ACTIONS).map(|name| format!("{ACTIONS}/{name}/action.yml"));
    let read = |file: String| {
        let text = fs::read_to_string(root.join(&file)).map_err(|e| format!("{file}: {e}"))?;
        Ok((file, yaml::read(&text)))
    };
    workflows.chain(actions).map(read).collect()
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
    fn every_reference_of_the_workflows_is_defined() {
        check_references(root()).unwrap();
    }

    #[test]
    fn wrong_line_of_a_workflow_or_action_is_refused() {
        let root = std::env::temp_dir().join(format!("xtask-workflows-{}", std::process::id()));
        let steps = "    steps:\n      - run: cargo xtask tset --all\n      - run: echo ${{ steps.b.outcome }}\n";
        for (file, above, line) in [
            (format!("{WORKFLOWS}/a.yml"), "jobs:\n  a:\n", 4),
            (format!("{ACTIONS}/b/action.yml"), "runs:\n", 3),
        ] {
            let path = root.join(&file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let steps =
                if above == "runs:\n" { steps.replace("    ", "  ") } else { steps.to_owned() };
            fs::write(&path, format!("{above}{steps}")).unwrap();
            let error = check_calls(&root).unwrap_err();
            let expected = format!("{file}:{line}: `cargo xtask tset --all`: unknown task");
            assert!(error.contains(&expected), "{error}");
            let error = check_references(&root).unwrap_err();
            let expected = format!("{file}:{}: `steps.b.outcome` is not defined", line + 1);
            assert!(error.contains(&expected), "{error}");
            fs::remove_dir_all(&root).unwrap();
        }
    }
}
