//! The steps of `cargo xtask test`: their number, a heading and a time for each, and a summary at the end.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, thread};

use crate::process::{self, Beside};
use crate::{Result, Workplace};

/// The steps so far. A failed step does not stop independent steps.
pub(crate) struct Steps {
    /// True if steps are only counted, not run.
    counting: bool,
    counted: usize,
    done: Vec<Step>,
    begun: Instant,
    /// The seconds that each step took in the last run.
    earlier: BTreeMap<String, f64>,
    /// The file with those seconds.
    record: Option<PathBuf>,
    /// The time after which steps of [`Steps::if_time`] are not begun.
    deadline: Option<SystemTime>,
    /// True during [`Steps::if_time`].
    if_time: bool,
    /// True if a step was left out because its time was over.
    left_out: bool,
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
    /// The CPU time of the processes that ended during the step, which shows its cost also on a busy machine.
    cpu: Duration,
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Passed,
    Failed(String),
    /// The reason why the step could not be tried. Never counted as passed.
    Skipped(String),
}

/// How a list of steps ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ended {
    /// None failed.
    Passed,
    /// None failed, and the time for some of [`Steps::if_time`] was over.
    LeftOut,
    Failed,
}

/// The exit code of a run that ended with [`Ended::LeftOut`], for the run that began it.
pub(crate) const LEFT_OUT: u8 = 75;

/// The result of a step that did not fail.
#[derive(Debug)]
pub(crate) enum Finished {
    Passed,
    /// The reason why the step could not be tried on this machine, which is not a failure.
    Notice(String),
}

/// A step that is one command, and may run while other such steps run.
pub(crate) struct Independent {
    pub(crate) name: String,
    pub(crate) command: Command,
    /// An exit code for a command that could try nothing, and the reason.
    pub(crate) notice: Option<(i32, String)>,
}

impl Steps {
    /// Counts the steps of `list` without running them, then prints their number and the expected time. `kind` names
    /// the file of the times.
    pub(crate) fn counted(
        workplace: &Workplace,
        kind: &str,
        expected: &str,
        list: impl FnOnce(&mut Self),
    ) -> Self {
        let mut steps = Self::new(true);
        list(&mut steps);
        steps.counting = false;
        steps.deadline = deadline(env::var(DEADLINE).ok().as_deref());
        let record = workplace.target.join("step-times").join(kind);
        steps.earlier = times_in(&fs::read_to_string(&record).unwrap_or_default());
        steps.record = Some(record);
        let last = steps
            .earlier
            .get(TOGETHER)
            .map(|time| format!(" The last run took {}.", lasting(*time)));
        println!("{} steps; {expected}.{}", steps.counted, last.unwrap_or_default());
        steps
    }

    fn new(counting: bool) -> Self {
        Self {
            counting,
            counted: 0,
            done: Vec::new(),
            begun: Instant::now(),
            earlier: BTreeMap::new(),
            record: None,
            deadline: None,
            if_time: false,
            left_out: false,
        }
    }

    /// Lists steps that are not begun after the time in `DLBRIDGE_IF_TIME_UNTIL`, which CI sets. Those that are left out
    /// are notices in the summary.
    pub(crate) fn if_time<T>(&mut self, list: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.if_time, true);
        let made = list(self);
        self.if_time = before;
        made
    }

    /// Returns true, and records that a step was left out, if its time is over.
    fn is_left_out(&mut self, name: &str) -> bool {
        if !(self.if_time && self.is_time_over()) {
            return false;
        }
        self.heading(name);
        self.left_out = true;
        let reason = format!("left out: the time in {DEADLINE} is over");
        self.ended(name, Outcome::Skipped(reason), Duration::ZERO, process::cpu_of_children());
        true
    }

    /// Returns whether the steps of [`Steps::if_time`] are left out from now on.
    pub(crate) fn is_time_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| SystemTime::now() >= deadline)
    }

    /// Returns whether the steps are only counted.
    pub(crate) fn counting(&self) -> bool {
        self.counting
    }

    /// Begins a step that runs beside later ones, until [`Steps::end`].
    pub(crate) fn begin(
        &mut self,
        name: &str,
        step: impl FnOnce() -> Result<Beside>,
    ) -> Option<Begun> {
        if self.counting {
            self.counted += 1;
            return None;
        }
        if self.is_left_out(name) {
            return None;
        }
        let start = Instant::now();
        println!("\n=== {name}, beside the next steps{}", self.last_time(name));
        match step() {
            Ok(program) => Some(Begun { name: name.to_owned(), start, program }),
            Err(error) => {
                self.did_not_start(name, error);
                None
            }
        }
    }

    /// Records that the program of a step did not start.
    fn did_not_start(&mut self, name: &str, error: String) {
        self.heading(name);
        self.ended(name, Outcome::Failed(error), Duration::ZERO, process::cpu_of_children());
    }

    /// Waits for a step from [`Steps::begin`], and prints its output.
    pub(crate) fn end(&mut self, begun: Begun) {
        let Begun { name, start, program } = begun;
        self.heading(&name);
        let cpu = process::cpu_of_children();
        let outcome = match program.finish_or(&[i32::from(LEFT_OUT)]) {
            Ok(0) => Outcome::Passed,
            Ok(_) => {
                self.left_out = true;
                Outcome::Skipped(format!(
                    "some of its steps were left out, because the time in {DEADLINE} was over; its output names them"
                ))
            }
            Err(error) => Outcome::Failed(error),
        };
        self.ended(&name, outcome, start.elapsed(), cpu);
    }

    /// Runs one step. Returns its result, if it succeeded.
    pub(crate) fn run<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T>) -> Option<T> {
        if self.counting {
            self.counted += 1;
            return None;
        }
        if self.is_left_out(name) {
            return None;
        }
        self.heading(name);
        let (start, cpu) = (Instant::now(), process::cpu_of_children());
        let (outcome, made) = match step() {
            Ok(made) => (Outcome::Passed, Some(made)),
            Err(error) => (Outcome::Failed(error), None),
        };
        self.ended(name, outcome, start.elapsed(), cpu);
        made
    }

    /// Runs one step that other steps need. Returns `None` if it failed.
    pub(crate) fn need(&mut self, name: &str, step: impl FnOnce() -> Result<()>) -> Option<()> {
        self.run(name, step).or(self.counting.then_some(()))
    }

    /// Runs one step that may not be possible on this machine.
    pub(crate) fn try_run(&mut self, name: &str, step: impl FnOnce() -> Result<Finished>) {
        if self.counting {
            self.counted += 1;
            return;
        }
        if self.is_left_out(name) {
            return;
        }
        self.heading(name);
        let (start, cpu) = (Instant::now(), process::cpu_of_children());
        let outcome = match step() {
            Ok(Finished::Passed) => Outcome::Passed,
            Ok(Finished::Notice(reason)) => Outcome::Skipped(reason),
            Err(error) => Outcome::Failed(error),
        };
        self.ended(name, outcome, start.elapsed(), cpu);
    }

    /// Runs steps side by side, one per core of the machine, and prints the output of each when it has ended.
    pub(crate) fn run_side_by_side(&mut self, workplace: &Workplace, steps: Vec<Independent>) {
        if self.counting {
            self.counted += steps.len();
            return;
        }
        let most = thread::available_parallelism().map_or(1, usize::from);
        let mut waiting = steps.into_iter().enumerate();
        let mut running: Vec<(Begun, Option<(i32, String)>)> = Vec::new();
        loop {
            while running.len() < most {
                let Some((number, step)) = waiting.next() else { break };
                let Independent { name, mut command, notice } = step;
                if self.is_left_out(&name) {
                    continue;
                }
                let log = workplace.target.join("side-by-side").join(format!("{number}.txt"));
                match process::beside(&mut command, log) {
                    Ok(program) => {
                        running.push((Begun { name, start: Instant::now(), program }, notice));
                    }
                    Err(error) => self.did_not_start(&name, error),
                }
            }
            if running.is_empty() {
                return;
            }
            let cpu = process::cpu_of_children();
            let ended = running.iter_mut().position(|(begun, _)| begun.program.has_ended());
            let Some(ended) = ended else {
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            let (Begun { name, start, program }, notice) = running.remove(ended);
            self.heading(&name);
            let accepted = notice.as_ref().map(|(code, _)| *code);
            let outcome = match (program.finish_or(accepted.as_slice()), notice) {
                (Ok(code), Some((nothing, reason))) if code == nothing => Outcome::Skipped(reason),
                (Ok(_), _) => Outcome::Passed,
                (Err(error), _) => Outcome::Failed(error),
            };
            self.ended(&name, outcome, start.elapsed(), cpu);
        }
    }

    fn heading(&self, name: &str) {
        let (number, of) = (self.done.len() + 1, self.counted.max(self.done.len() + 1));
        println!("\n=== {number} of {of}. {name}{}", self.last_time(name));
    }

    fn last_time(&self, name: &str) -> String {
        self.earlier.get(name).map(|time| format!(" ({time:.0} s last time)")).unwrap_or_default()
    }

    /// Stores and prints the outcome of a step. `cpu` is the CPU time of the child processes when the step began.
    fn ended(&mut self, name: &str, outcome: Outcome, time: Duration, cpu: Duration) {
        let cpu = process::cpu_of_children().saturating_sub(cpu);
        let (seconds, of_cpu) = (time.as_secs_f64(), cpu.as_secs_f64());
        match &outcome {
            Outcome::Passed => {}
            Outcome::Failed(error) => println!("FAILED: {error}"),
            Outcome::Skipped(reason) => println!("notice: {reason}"),
        }
        println!("--- {}, {seconds:.1} s, {of_cpu:.1} s of CPU", word(&outcome));
        self.done.push(Step { name: name.to_owned(), outcome, time, cpu });
    }

    /// Prints the outcome of every step, the failed ones again at the end.
    pub(crate) fn summary(&self) -> Ended {
        println!("\n=== Summary");
        let width = self.done.iter().map(|s| s.name.chars().count()).max().unwrap_or(0);
        println!("{:width$}  {:6}  {:>8}  {:>8}", "", "", "elapsed", "CPU");
        for Step { name, outcome, time, cpu } in &self.done {
            let (seconds, cpu) = (time.as_secs_f64(), cpu.as_secs_f64());
            println!("{name:width$}  {:6}  {seconds:6.1} s  {cpu:6.1} s", word(outcome));
            if let Outcome::Failed(text) | Outcome::Skipped(text) = outcome {
                println!("    {text}");
            }
        }
        let total = self.begun.elapsed().as_secs_f64();
        let cpu = process::cpu_of_children().as_secs_f64();
        println!("{TOGETHER:width$}  {:6}  {total:6.1} s  {cpu:6.1} s", "");
        println!("\n{}", self.counts());
        let failed = self.done.iter().filter(|s| matches!(s.outcome, Outcome::Failed(_)));
        let failed: Vec<_> = failed.map(|s| s.name.as_str()).collect();
        if !failed.is_empty() {
            println!("failed: {}", failed.join("; "));
            return Ended::Failed;
        }
        if self.left_out {
            return Ended::LeftOut;
        }
        self.write_times(total);
        Ended::Passed
    }

    /// Returns the outcome of every step as a table in Markdown, with the reason of each that did not pass.
    pub(crate) fn table(&self) -> String {
        let mut text = "| step | result | seconds of CPU |\n| --- | --- | ---: |\n".to_owned();
        for Step { name, outcome, cpu, .. } in &self.done {
            let cell = |text: &str| text.replace('|', "\\|").lines().collect::<Vec<_>>().join(" ");
            let result = match outcome {
                Outcome::Passed => "passed".to_owned(),
                Outcome::Failed(reason) => format!("**failed**: {}", cell(reason)),
                Outcome::Skipped(reason) => format!("notice: {}", cell(reason)),
            };
            let _ = writeln!(text, "| {} | {result} | {:.0} |", cell(name), cpu.as_secs_f64());
        }
        text
    }

    /// Stores the times for the next run, and ignores errors, because only the estimates of the next run need the file.
    fn write_times(&self, total: f64) {
        let Some(record) = &self.record else { return };
        let tried = self.done.iter().filter(|step| !matches!(step.outcome, Outcome::Skipped(_)));
        let times = tried.map(|step| (step.name.as_str(), step.time.as_secs_f64()));
        let mut text = String::new();
        for (name, seconds) in times.chain([(TOGETHER, total)]) {
            let _ = writeln!(text, "{seconds:.1} {name}");
        }
        let _ = record.parent().map(fs::create_dir_all);
        let _ = fs::write(record, text);
    }

    /// Returns the closing line.
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

/// The name of the sum, in the summary and in the file of the times.
const TOGETHER: &str = "together";

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "ok",
        Outcome::Failed(_) => "FAILED",
        Outcome::Skipped(_) => "notice",
    }
}

/// Parses the seconds and names in a file of times.
fn times_in(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.filter_map(|(time, name)| Some((name.to_owned(), time.parse().ok()?))).collect()
}

/// The environment variable with a time in seconds since 1970.
const DEADLINE: &str = "DLBRIDGE_IF_TIME_UNTIL";

/// Parses the value of [`DEADLINE`].
fn deadline(value: Option<&str>) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(value?.parse().ok()?))
}

/// Returns seconds as text, in minutes if there are many.
fn lasting(seconds: f64) -> String {
    if seconds < 100.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

/// Returns true in CI, where a step that cannot be tried fails.
pub(crate) fn in_ci() -> bool {
    env::var("CI").is_ok_and(|ci| !matches!(ci.as_str(), "" | "0" | "false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notice_is_neither_passed_nor_failed() {
        let mut steps = Steps::new(false);
        assert_eq!(steps.run("one", || Ok(1)), Some(1));
        steps.try_run("two", || Ok(Finished::Passed));
        assert_eq!(steps.counts(), "xtask: 2 passed, 0 failed");
        steps.try_run("three", || Ok(Finished::Notice("not here".into())));
        assert_eq!(steps.counts(), "xtask: 2 passed, 0 failed, 1 skipped");
        assert_eq!(steps.summary(), Ended::Passed);
        assert_eq!(steps.run("four", || Err::<(), _>("broken".into())), None);
        steps.try_run("five", || Err("broken".into()));
        assert_eq!(steps.counts(), "xtask: 2 passed, 2 failed, 1 skipped");
        assert_eq!(steps.summary(), Ended::Failed);
    }

    #[test]
    fn table_has_each_step_in_one_line() {
        let mut steps = Steps::new(false);
        steps.run("one | two", || Ok(()));
        steps.run("three", || Err::<(), _>("broken\nagain".into()));
        steps.try_run("four", || Ok(Finished::Notice("not | here".into())));
        assert_eq!(
            steps.table(),
            "| step | result | seconds of CPU |\n| --- | --- | ---: |\n\
             | one \\| two | passed | 0 |\n\
             | three | **failed**: broken again | 0 |\n\
             | four | notice: not \\| here | 0 |\n"
        );
    }

    // It runs a shell.
    #[cfg(unix)]
    #[test]
    fn step_beside_others_counts_when_it_ends() {
        let mut steps = Steps::new(false);
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

    // It runs a shell.
    #[cfg(unix)]
    #[test]
    fn step_that_left_out_a_part_is_no_pass() {
        let mut steps = Steps::new(false);
        let log = std::env::temp_dir().join("xtask-beside-3");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("echo partly; exit {LEFT_OUT}")]);
        let begun = steps.begin("one", || crate::process::beside(&mut command, log));
        steps.end(begun.unwrap());
        assert_eq!(steps.counts(), "xtask: 0 passed, 0 failed, 1 skipped");
        assert_eq!(steps.summary(), Ended::LeftOut);
    }

    #[test]
    fn steps_are_counted_without_running() {
        let mut steps = Steps::new(true);
        assert_eq!(steps.run("one", || panic!("it ran") as Result<()>), None);
        assert_eq!(steps.need("two", || panic!("it ran")), Some(()));
        steps.try_run("three", || panic!("it ran"));
        assert!(steps.begin("four", || panic!("it ran")).is_none());
        assert_eq!((steps.counted, steps.done.len()), (4, 0));
    }

    // It runs a shell.
    #[cfg(unix)]
    #[test]
    fn steps_side_by_side_keep_their_own_outcome_and_time() {
        let folder = std::env::temp_dir().join("xtask-side-by-side");
        let workplace = Workplace { root: folder.clone(), target: folder };
        let step = |name: &str, script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let notice = Some((5, "nothing was tried".to_owned()));
            Independent { name: name.to_owned(), command, notice }
        };
        let mut steps = Steps::new(false);
        let all =
            [step("slow", "sleep 0.2"), step("bad", "echo no; exit 3"), step("none", "exit 5")];
        steps.run_side_by_side(&workplace, all.into());
        assert_eq!(steps.counts(), "xtask: 1 passed, 1 failed, 1 skipped");
        let of = |name: &str| steps.done.iter().find(|step| step.name == name).unwrap();
        assert!(of("slow").time >= Duration::from_millis(200));
        assert!(matches!(&of("bad").outcome, Outcome::Failed(error) if error.contains("| no")));
    }

    #[test]
    fn steps_that_are_repeated_are_left_out_after_the_deadline() {
        let mut steps = Steps::new(false);
        steps.deadline = deadline(Some("1"));
        assert_eq!(steps.run("one", || Ok(1)), Some(1));
        steps.if_time(|steps| {
            assert_eq!(steps.run("two", || panic!("it ran") as Result<()>), None);
            steps.try_run("three", || panic!("it ran"));
            assert!(steps.begin("four", || panic!("it ran")).is_none());
            let folder = std::env::temp_dir();
            let workplace = Workplace { root: folder.clone(), target: folder };
            let command = Command::new("a program that does not exist");
            steps.run_side_by_side(
                &workplace,
                vec![Independent { name: "five".into(), command, notice: None }],
            );
        });
        assert_eq!(steps.run("six", || Ok(1)), Some(1));
        assert_eq!(steps.counts(), "xtask: 2 passed, 0 failed, 4 skipped");
        assert_eq!(steps.summary(), Ended::LeftOut);
        steps.deadline = deadline(Some("99999999999"));
        assert_eq!(steps.if_time(|steps| steps.run("seven", || Ok(1))), Some(1));
        assert_eq!((deadline(None), deadline(Some("soon"))), (None, None));
        assert_eq!(deadline(Some("18446744073709551615")), None, "later than times can be");
    }

    #[test]
    fn times_of_the_last_run_are_read() {
        let times = times_in("1.5 Rust tests: dlbridge\n62.0 together\nbroken\n");
        assert_eq!(times.len(), 2);
        assert_eq!(times["Rust tests: dlbridge"], 1.5);
        assert_eq!((lasting(62.0), lasting(200.0)), ("62 s".into(), "3 min".into()));
    }
}
