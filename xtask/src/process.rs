//! Running commands: shown before they run, their output passed through, their failure an error.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::Result;

/// Runs a command to its end. It writes to the terminal itself.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    run_or(command, &[]).map(drop)
}

/// As [`run`], but some exit codes are no failure either. The one it ended with.
pub(crate) fn run_or(command: &mut Command, accepted: &[i32]) -> Result<i32> {
    let shown = show(command);
    println!("$ {shown}");
    let status = command.status().map_err(|e| format!("`{shown}` did not start: {e}"))?;
    let code = status.code().filter(|code| *code == 0 || accepted.contains(code));
    code.ok_or_else(|| format!("`{shown}` failed ({status})"))
}

/// A command that runs beside others, and what it writes, in a file.
pub(crate) struct Beside {
    shown: String,
    child: Child,
    log: PathBuf,
}

/// Starts a command that writes to a file.
pub(crate) fn beside(command: &mut Command, log: PathBuf) -> Result<Beside> {
    let shown = show(command);
    println!("$ {shown} &");
    let failed = |e: std::io::Error| format!("{}: {e}", log.display());
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let file = File::create(&log).map_err(failed)?;
    let errors = file.try_clone().map_err(failed)?;
    let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
    let child = child.map_err(|e| format!("`{shown}` did not start: {e}"))?;
    Ok(Beside { shown, child, log })
}

impl Beside {
    /// Waits for the end, and shows what was written.
    pub(crate) fn finish(mut self) -> Result<()> {
        let status = self.child.wait().map_err(|e| format!("`{}`: {e}", self.shown))?;
        let text = fs::read(&self.log).unwrap_or_default();
        println!("$ {}\n{}", self.shown, String::from_utf8_lossy(&text));
        if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", self.shown)) }
    }
}

/// Whether a command can be run and succeeds; what it writes is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|s| s.success())
}

/// What a command writes to its standard output, without the white space around it; `None` if it
/// cannot be run or fails. What it writes to standard error is not shown.
pub(crate) fn answer(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

/// The command as one would type it in its directory.
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
    fn commands_are_shown_as_typed() {
        let mut command = Command::new("/a/b/tool");
        command.current_dir("/a").args(["-D warnings", "/a/c", "/d"]);
        assert_eq!(show(&command), "b/tool '-D warnings' c /d");
    }
}
