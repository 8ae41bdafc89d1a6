//! Runs commands: prints them before they run, passes their output through, and returns an error if they fail.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, IsTerminal, PipeReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// An error is a sentence for the person at the terminal.
pub(crate) type Result<T, E = String> = std::result::Result<T, E>;

/// The number of last lines that the error of a failed command repeats.
const LAST_LINES: usize = 15;

/// The time after which a command that writes to a log has hung. The longest step takes a third of it on a busy machine.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// Runs a command to its end and prints its output. The error repeats the last lines of the output, so that the summary
/// in a log shows why a step failed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    run_at_most(command, LONGEST)
}

/// Runs a command like [`run`] that may take hours, as Miri and emulators do beside other programs.
pub(crate) fn run_for_hours(command: &mut Command) -> Result<()> {
    run_at_most(command, 8 * LONGEST)
}

fn run_at_most(command: &mut Command, longest: Duration) -> Result<()> {
    let shown = show(command);
    println!("$ {shown}");
    let ended = match io::stdout().is_terminal() {
        true => command.status().map(|status| (Some(status), VecDeque::new())),
        false => passed_through(command, longest),
    };
    let (status, last) = ended.map_err(|e| format!("`{shown}` did not start: {e}"))?;
    let Some(status) = status else { return Err(hung(&shown, last)) };
    if status.success() { Ok(()) } else { Err(failure(&shown, status, last)) }
}

fn failure(shown: &str, status: ExitStatus, last: VecDeque<String>) -> String {
    format!("`{shown}` failed ({status}){}", quoted(last))
}

fn hung(shown: &str, last: VecDeque<String>) -> String {
    format!("`{shown}` did not end in time and was stopped{}", quoted(last))
}

fn quoted(lines: VecDeque<String>) -> String {
    lines.into_iter().map(|line| format!("\n    | {line}")).collect()
}

/// Stops a command that hangs. Python prints where its threads are.
fn stop(child: &mut Child) {
    let abort = ["-ABRT".to_owned(), child.id().to_string()];
    let _ = Command::new("kill").args(abort).status();
    for _ in 0..50 {
        if child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Runs a command and prints its output. Returns its status, or `None` if it was stopped after `longest`, and its last
/// lines.
fn passed_through(
    command: &mut Command,
    longest: Duration,
) -> io::Result<(Option<ExitStatus>, VecDeque<String>)> {
    let begun = Instant::now();
    let (output, input) = io::pipe()?;
    let mut child = command.stdout(input.try_clone()?).stderr(input).spawn()?;
    // `command` still owns its ends of the pipe, and the lines would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let lines = lines_of(output);
    let mut last = VecDeque::new();
    let mut show = |line: String| {
        println!("{line}");
        last.push_back(line);
        if last.len() > LAST_LINES {
            last.pop_front();
        }
    };
    // A process that the command leaves running may keep the pipe open.
    let status = loop {
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => show(line),
            Err(RecvTimeoutError::Disconnected) => break Some(child.wait()?),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    break Some(status);
                }
                if begun.elapsed() > longest {
                    stop(&mut child);
                    break None;
                }
            }
        }
    };
    while let Ok(line) = lines.recv_timeout(Duration::from_millis(50)) {
        show(line);
    }
    Ok((status, last))
}

/// Reads lines on a thread.
fn lines_of(output: PipeReader) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
            line.clear();
            if sender.send(text).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A command that runs beside others, with its output in a file.
pub(crate) struct Beside {
    shown: String,
    child: Child,
    log: PathBuf,
    begun: Instant,
    was_stopped: bool,
}

/// Starts a command that writes to a file.
pub(crate) fn beside(command: &mut Command, log: PathBuf) -> Result<Beside> {
    let shown = show(command);
    let failed = |e: std::io::Error| format!("{}: {e}", log.display());
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let file = File::create(&log).map_err(failed)?;
    let errors = file.try_clone().map_err(failed)?;
    let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
    let child = child.map_err(|e| format!("`{shown}` did not start: {e}"))?;
    Ok(Beside { shown, child, log, begun: Instant::now(), was_stopped: false })
}

impl Beside {
    /// Returns whether the command has ended, or was stopped because it hung. Does not wait.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.begun.elapsed() > LONGEST {
            stop(&mut self.child);
            self.was_stopped = true;
        }
        // `finish` returns the error again.
        self.child.try_wait().map_or(true, |status| status.is_some())
    }

    /// Waits for the end, and prints the output. Returns the exit code, which is 0 or one of `accepted`.
    pub(crate) fn finish_or(mut self, accepted: &[i32]) -> Result<i32> {
        let status = self.child.wait().map_err(|e| format!("`{}`: {e}", self.shown))?;
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        println!("$ {}\n{text}", self.shown);
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].to_vec();
        if self.was_stopped {
            return Err(hung(&self.shown, last.into()));
        }
        let code = status.code().filter(|code| *code == 0 || accepted.contains(code));
        code.ok_or_else(|| failure(&self.shown, status, last.into()))
    }
}

/// Returns true if a command can be run and succeeds. Does not print its output.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|s| s.success())
}

/// Returns the trimmed standard output of a command, or `None` if the command cannot be run or fails. Does not print
/// its standard error.
pub(crate) fn answer(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

/// Returns the CPU time of all ended child processes, or zero if the system does not report it.
pub(crate) fn cpu_of_children() -> Duration {
    fs::read_to_string("/proc/self/stat").ok().and_then(|stat| cpu_in(&stat)).unwrap_or_default()
}

/// Returns the sum of the fields `cutime` and `cstime` of `/proc/self/stat`, which Linux counts in ticks of 10 ms.
fn cpu_in(stat: &str) -> Option<Duration> {
    // The second field is the name of the program in parentheses, which may contain spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(13).map(str::parse::<u64>);
    let ticks = fields.next()?.ok()? + fields.next()?.ok()?;
    Some(Duration::from_millis(10 * ticks))
}

/// Returns the command as a user would type it in its directory.
fn show(command: &Command) -> String {
    let directory = command.get_current_dir().map(|d| format!("{}/", d.display()));
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words
        .map(|word| {
            let word = word.to_string_lossy();
            let word = directory.as_deref().and_then(|d| word.strip_prefix(d)).unwrap_or(&word);
            if word.contains(char::is_whitespace) { format!("'{word}'") } else { word.to_owned() }
        })
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_children_is_read_after_the_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4 1 2 3 4 50 60 120 30 20 0 1 0 9";
        assert_eq!(cpu_in(stat), Some(Duration::from_millis(1500)));
        assert_eq!(cpu_in("7 (a) S 1"), None);
    }

    // It runs a shell.
    #[cfg(unix)]
    #[test]
    fn failed_command_repeats_its_last_lines() {
        let mut command = Command::new("sh");
        command.args(["-c", "for i in $(seq 20); do echo line $i; done; echo end >&2; exit 3"]);
        let (status, last) = passed_through(&mut command, LONGEST).expect("a shell");
        let text = failure("x", status.unwrap(), last);
        assert!(text.starts_with("`x` failed (exit status: 3)\n    | line 7\n"), "{text}");
        assert!(text.ends_with("\n    | line 20\n    | end"), "{text}");
    }

    // It runs a shell.
    #[cfg(unix)]
    #[test]
    fn command_that_leaves_a_process_behind_ends() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first; sleep 60 & exit 0"]);
        let (status, last) = passed_through(&mut command, LONGEST).expect("a shell");
        assert!(status.unwrap().success());
        assert_eq!(last, ["first"]);
    }

    // It runs a shell.
    #[cfg(unix)]
    #[test]
    fn command_that_hangs_is_stopped_and_shows_its_last_lines() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo waiting; exec sleep 600"]);
        let stopped = passed_through(&mut command, Duration::from_millis(300)).expect("a shell");
        assert!(stopped.0.is_none());
        let text = hung("x", stopped.1);
        assert_eq!(text, "`x` did not end in time and was stopped\n    | waiting");
    }

    #[test]
    fn commands_are_shown_as_typed() {
        let mut command = Command::new("/a/b/tool");
        command.current_dir("/a").args(["-D warnings", "/a/c", "/d"]);
        assert_eq!(show(&command), "b/tool '-D warnings' c /d");
    }
}
