//! The `cargo xtask` command lines of a workflow or action.

use super::yaml::Yaml;

/// The start of a task's command line.
pub(super) const TASK: &str = "cargo xtask";

/// A `cargo xtask` command line.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    pub(super) file: String,
    pub(super) line: usize,
    /// The words after `cargo xtask`.
    pub(super) words: Vec<String>,
}

/// Returns the `cargo xtask` command lines of all steps.
pub(super) fn calls_in(file: &str, yaml: &Yaml) -> Vec<Call> {
    let is_script = |path: &[String]| {
        path.last().is_some_and(|name| name == "run") && path.contains(&"steps".to_owned())
    };
    let mut calls = Vec::new();
    for entry in yaml.0.iter().filter(|entry| is_script(&entry.path)) {
        for (offset, command) in commands(&entry.value) {
            if let Some(words) = words(&command) {
                calls.push(Call { file: file.to_owned(), line: entry.line + offset, words });
            }
        }
    }
    calls
}

/// Returns the single commands of a script, each with the number of its line. A command may go on in the next line.
fn commands(script: &str) -> Vec<(usize, String)> {
    let mut commands = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (offset, line) in script.lines().enumerate() {
        let line = match line.trim_start() {
            comment if comment.starts_with('#') => "",
            line => line.split(" #").next().unwrap_or_default().trim_end(),
        };
        let (first, before) = open.take().unwrap_or((offset, String::new()));
        let line = format!("{before}{line}");
        if let Some(unfinished) = line.strip_suffix('\\') {
            open = Some((first, unfinished.to_owned()));
            continue;
        }
        let separated = ["&&", "||", ";", "|", "$(", "(", ")", "`"]
            .iter()
            .fold(line, |line, separator| line.replace(separator, "\n"));
        commands.extend(separated.lines().map(|command| (first, command.to_owned())));
    }
    commands.extend(open);
    commands
}

/// Returns the words after `cargo xtask`, or after `cargo run --package xtask --`.
fn words(command: &str) -> Option<Vec<String>> {
    let words = command.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    let mut words = words.take_while(|word| !word.trim_start_matches('2').starts_with(['>', '<']));
    words.find(|word| *word == "cargo")?;
    let task = words.find(|word| !word.starts_with(['+', '-']))?;
    if task == "run" {
        let mut names_task = false;
        for word in words.by_ref().take_while(|word| *word != "--") {
            names_task |= ["xtask", "-pxtask", "--package=xtask"].contains(&word);
        }
        names_task.then(|| words.map(str::to_owned).collect())
    } else {
        (task == "xtask").then(|| words.map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::yaml;
    use super::*;

    /// Returns the lines and the words of the calls in the steps of a job.
    fn found(steps: &str) -> Vec<(usize, String)> {
        let text = format!("jobs:\n  a:\n    steps:\n{steps}");
        let calls = calls_in("a.yml", &yaml::read(&text));
        calls.into_iter().map(|call| (call.line, call.words.join(" "))).collect()
    }

    #[test]
    fn command_lines_are_found_with_their_line() {
        let steps = "      - run: cargo xtask test --all # slow\n      # cargo xtask old\n      - run: |\n          \
            # cargo xtask older\n          cargo xtask lint\n      - name: cargo xtask name\n";
        assert_eq!(found(steps), [(4, "test --all".to_owned()), (8, "lint".to_owned())]);
    }

    #[test]
    fn every_spelling_of_a_call_is_found() {
        for (script, expected) in [
            ("cargo xtask lint && cargo xtask test --all", vec!["lint", "test --all"]),
            ("cargo  xtask  tset", vec!["tset"]),
            ("cargo +nightly xtask lint > log 2>&1", vec!["lint"]),
            ("cargo run -p xtask -- tset --all", vec!["tset --all"]),
            ("cargo run --quiet --package=xtask -- lint", vec!["lint"]),
            (
                "X=1 cargo xtask lint || exit 1; cargo xtask wheels | tee log",
                vec!["lint", "wheels"],
            ),
            ("echo \"$(cargo xtask lint)\"", vec!["lint"]),
            ("cargo test --package xtask", vec![]),
        ] {
            let calls = found(&format!("      - run: {script}\n"));
            assert_eq!(
                calls.into_iter().map(|call| call.1).collect::<Vec<_>>(),
                expected,
                "{script}"
            );
        }
        let split = "      - run: |\n          true\n          cargo xtask \\\n            test \\\n            --all\n";
        assert_eq!(found(split), [(6, "test --all".to_owned())]);
    }
}
