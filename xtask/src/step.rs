//! A list of named commands: runs them, keeps the output of each in a file, and prints a line for each and a summary.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// An error is a sentence for the reader at the terminal.
pub(crate) type Result<T, E = String> = std::result::Result<T, E>;

/// The time after which a command has hung, unless the step sets another.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// The number of last lines that a failed step prints.
const LAST_LINES: usize = 40;

/// A named command.
pub(crate) struct Step {
    pub(crate) name: String,
    command: Command,
    longest: Duration,
    is_needed: bool,
}

impl Step {
    /// A program and its arguments, separated by spaces.
    pub(crate) fn new(name: impl Into<String>, line: &str) -> Self {
        let (program, arguments) = line.split_once(' ').unwrap_or((line, ""));
        Self::of(name, Path::new(program), arguments)
    }

    /// A program, whose path may have spaces, and its arguments.
    pub(crate) fn of(name: impl Into<String>, program: &Path, arguments: &str) -> Self {
        let mut command = Command::new(program);
        command.args(arguments.split_whitespace());
        Self { name: name.into(), command, longest: LONGEST, is_needed: false }
    }

    /// Lines of a shell. Only for steps that no other system than Linux runs.
    pub(crate) fn sh(name: impl Into<String>, script: &str) -> Self {
        let mut step = Self::new(name, "bash -euo pipefail -c");
        step.command.arg(script);
        step
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn named(mut self, name: impl FnOnce(String) -> String) -> Self {
        self.name = name(self.name);
        self
    }

    /// Runs the command in a folder.
    pub(crate) fn dir(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Stops the command after so many minutes, not after [`LONGEST`].
    pub(crate) fn minutes(mut self, minutes: u64) -> Self {
        self.longest = Duration::from_secs(60 * minutes);
        self
    }

    /// If this step fails, those after it in its list do not run.
    pub(crate) fn needed(mut self) -> Self {
        self.is_needed = true;
        self
    }
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// A needed step failed before it.
    NotRun,
}

/// The steps that ran.
pub(crate) struct Report {
    logs: PathBuf,
    begun: Instant,
    done: Mutex<Vec<(String, Outcome)>>,
}

impl Report {
    /// The output of each step goes to a file in `target/logs`.
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let logs = root.join("target/logs");
        fs::create_dir_all(&logs).map_err(|e| format!("{}: {e}", logs.display()))?;
        Ok(Self { logs, begun: Instant::now(), done: Mutex::default() })
    }

    /// Runs steps one after another. Returns true if all passed.
    pub(crate) fn run(&self, steps: impl IntoIterator<Item = Step>) -> bool {
        let (mut passed, mut goes_on) = (true, true);
        for step in steps {
            let outcome = if goes_on {
                self.run_one(&step.name, step.command, step.longest)
            } else {
                Outcome::NotRun
            };
            passed &= outcome == Outcome::Passed;
            goes_on &= !(step.is_needed && outcome != Outcome::Passed);
            self.done.lock().expect("no panic").push((step.name, outcome));
        }
        passed
    }

    /// Runs lists of steps side by side, one thread for each list.
    pub(crate) fn beside(&self, lists: Vec<Vec<Step>>) {
        thread::scope(|scope| {
            for list in lists {
                scope.spawn(|| self.run(list));
            }
        });
    }

    /// Prints the summary. Returns true if all steps passed.
    pub(crate) fn summary(&self) -> bool {
        let done = self.done.lock().expect("no panic");
        let failed: Vec<_> =
            done.iter().filter(|(_, outcome)| *outcome != Outcome::Passed).collect();
        let cpu = cpu_seconds().map(|cpu| format!(", {cpu} s of CPU")).unwrap_or_default();
        println!(
            "\n{} s{cpu}; the output of each step is in target/logs",
            self.begun.elapsed().as_secs()
        );
        for (name, outcome) in &failed {
            println!("{}: {name}", if *outcome == Outcome::Failed { "failed" } else { "not run" });
        }
        println!("{} passed, {} failed", done.len() - failed.len(), failed.len());
        failed.is_empty()
    }

    fn run_one(&self, name: &str, mut command: Command, longest: Duration) -> Outcome {
        let begun = Instant::now();
        let log = self.logs.join(format!("{}.log", name.replace(['/', ' ', ':'], "-")));
        let ended = File::create(&log).and_then(|file| logged(&mut command, &file, longest));
        let seconds = begun.elapsed().as_secs();
        let problem = match ended {
            Ok(Some(status)) if status.success() => {
                println!("ok     {name} ({seconds} s)");
                return Outcome::Passed;
            }
            Ok(Some(status)) => status.to_string(),
            Ok(None) => format!("stopped after {} minutes", longest.as_secs() / 60),
            Err(error) => error.to_string(),
        };
        let output = fs::read(&log).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let lines: Vec<_> = output.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n     | ");
        println!("FAILED {name} ({seconds} s): {problem}\n     $ {command:?}\n     | {last}");
        Outcome::Failed
    }
}

/// Runs a command with its output in a file. Returns `None` if it was stopped.
fn logged(
    command: &mut Command,
    log: &File,
    longest: Duration,
) -> std::io::Result<Option<ExitStatus>> {
    let output = || log.as_fd().try_clone_to_owned().map(Stdio::from);
    let mut child = command.stdin(Stdio::null()).stdout(output()?).stderr(output()?).spawn()?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() > longest {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the processor time of all commands that ended, on Linux.
fn cpu_seconds() -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<_> = stat.rsplit(") ").next()?.split(' ').collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    // Children in user and in kernel mode; a tick is 1/100 s on every Linux that Rust supports.
    Some((ticks(13)? + ticks(14)?) / 100)
}
