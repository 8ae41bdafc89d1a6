//! The steps of `cargo xtask test`: a heading for each, a summary at the end.

use std::env;
use std::time::{Duration, Instant};

use crate::Result;
use crate::process::{self, Beside};

/// The steps so far. A step that fails does not stop the ones that do not need it.
pub(crate) struct Steps {
    done: Vec<Step>,
    begun: Instant,
}

/// A step that runs beside others.
pub(crate) struct Begun {
    name: String,
    start: Instant,
    program: Beside,
}

struct Step {
    name: String,
    outcome: Outcome,
    time: Duration,
    /// Of the processes that ended during the step. On a busy machine this says what a step costs.
    cpu: Duration,
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Passed,
    Failed(String),
    /// Could not be tried; the reason. Never counted as passed.
    Skipped(String),
}

/// What a step that did not fail has to say.
#[derive(Debug)]
pub(crate) enum Finished {
    Passed,
    /// The step could not be tried on this machine, and that is no failure; the reason.
    Notice(String),
}

impl Default for Steps {
    fn default() -> Self {
        Self { done: Vec::new(), begun: Instant::now() }
    }
}

impl Steps {
    /// Begins a step that runs beside those that come after it, until [`Steps::end`].
    pub(crate) fn begin(
        &mut self,
        name: &str,
        step: impl FnOnce() -> Result<Beside>,
    ) -> Option<Begun> {
        let start = Instant::now();
        println!("\n=== {name}, beside the next steps");
        match step() {
            Ok(program) => Some(Begun { name: name.to_owned(), start, program }),
            Err(error) => {
                self.run(name, || Err::<(), _>(error));
                None
            }
        }
    }

    /// Waits for a step that was begun, and shows what it wrote.
    pub(crate) fn end(&mut self, begun: Begun) {
        let Begun { name, start, program } = begun;
        self.run(&name, || program.finish());
        if let Some(step) = self.done.last_mut() {
            step.time = start.elapsed();
        }
    }

    /// Runs one step. Returns what it made, if it succeeded.
    pub(crate) fn run<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T>) -> Option<T> {
        self.heading(name);
        let (start, cpu) = (Instant::now(), process::cpu_of_children());
        let (outcome, made) = match step() {
            Ok(made) => (Outcome::Passed, Some(made)),
            Err(error) => {
                println!("FAILED: {error}");
                (Outcome::Failed(error), None)
            }
        };
        let cpu = process::cpu_of_children().saturating_sub(cpu);
        self.done.push(Step { name: name.to_owned(), outcome, time: start.elapsed(), cpu });
        made
    }

    /// Runs one step that may find that it cannot be tried here.
    pub(crate) fn try_run(&mut self, name: &str, step: impl FnOnce() -> Result<Finished>) {
        if let Some(Finished::Notice(reason)) = self.run(name, step) {
            println!("notice: {reason}");
            if let Some(step) = self.done.last_mut() {
                step.outcome = Outcome::Skipped(reason);
            }
        }
    }

    fn heading(&self, name: &str) {
        println!("\n=== {}. {name}", self.done.len() + 1);
    }

    /// Prints the outcome of every step, the failed ones again at the end. True if none failed.
    pub(crate) fn summary(&self) -> bool {
        println!("\n=== Summary");
        let width = self.done.iter().map(|s| s.name.chars().count()).max().unwrap_or(0);
        println!("{:width$}  {:6}  {:>8}  {:>8}", "", "", "elapsed", "CPU");
        for Step { name, outcome, time, cpu } in &self.done {
            let (seconds, cpu) = (time.as_secs_f64(), cpu.as_secs_f64());
            let word = match outcome {
                Outcome::Passed => "ok",
                Outcome::Failed(_) => "FAILED",
                Outcome::Skipped(_) => "notice",
            };
            println!("{name:width$}  {word:6}  {seconds:6.1} s  {cpu:6.1} s");
            if let Outcome::Failed(text) | Outcome::Skipped(text) = outcome {
                println!("    {text}");
            }
        }
        let total = self.begun.elapsed().as_secs_f64();
        let cpu = process::cpu_of_children().as_secs_f64();
        println!("{:width$}  {:6}  {total:6.1} s  {cpu:6.1} s", "together", "");
        println!("\n{}", self.counts());
        let failed = self.done.iter().filter(|s| matches!(s.outcome, Outcome::Failed(_)));
        let failed: Vec<_> = failed.map(|s| s.name.as_str()).collect();
        if !failed.is_empty() {
            println!("failed: {}", failed.join("; "));
        }
        failed.is_empty()
    }

    /// The closing line.
    fn counts(&self) -> String {
        let count = |of: fn(&Outcome) -> bool| self.done.iter().filter(|s| of(&s.outcome)).count();
        let passed = count(|o| matches!(o, Outcome::Passed));
        let failed = count(|o| matches!(o, Outcome::Failed(_)));
        let skipped = count(|o| matches!(o, Outcome::Skipped(_)));
        let mut line = format!("xtask: {passed} passed, {failed} failed");
        if skipped > 0 {
            line += &format!(", {skipped} skipped");
        }
        line
    }
}

/// Whether what cannot be tried is a failure.
pub(crate) fn in_ci() -> bool {
    env::var("CI").is_ok_and(|ci| !matches!(ci.as_str(), "" | "0" | "false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_neither_passed_nor_failed() {
        let mut steps = Steps::default();
        assert_eq!(steps.run("one", || Ok(1)), Some(1));
        steps.try_run("two", || Ok(Finished::Passed));
        assert_eq!(steps.counts(), "xtask: 2 passed, 0 failed");
        steps.try_run("three", || Ok(Finished::Notice("not here".into())));
        assert_eq!(steps.counts(), "xtask: 2 passed, 0 failed, 1 skipped");
        assert!(steps.summary());
        assert_eq!(steps.run("four", || Err::<(), _>("broken".into())), None);
        steps.try_run("five", || Err("broken".into()));
        assert_eq!(steps.counts(), "xtask: 2 passed, 2 failed, 1 skipped");
        assert!(!steps.summary());
    }

    #[test]
    fn a_step_beside_others_counts_when_it_ends() {
        let mut steps = Steps::default();
        let folder = std::env::temp_dir();
        let shell = |script: &str, log: &str| {
            let mut command = std::process::Command::new("sh");
            crate::process::beside(command.args(["-c", script]), folder.join(log))
        };
        let one = steps.begin("one", || shell("echo fine", "xtask-beside-1"));
        let two = steps.begin("two", || shell("echo bad >&2; exit 3", "xtask-beside-2"));
        assert_eq!(steps.run("three", || Ok(1)), Some(1));
        assert_eq!(steps.counts(), "xtask: 1 passed, 0 failed");
        steps.end(one.unwrap());
        steps.end(two.unwrap());
        assert_eq!(steps.counts(), "xtask: 2 passed, 1 failed");
        assert!(steps.begin("four", || Err("broken".into())).is_none());
        assert_eq!(steps.counts(), "xtask: 2 passed, 2 failed");
    }
}
