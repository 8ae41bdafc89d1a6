//! The Pythons of this machine: by their names, by `PYTHON`, and from pyenv.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use crate::{Result, pins, process};

/// The oldest Python that the wheel supports.
pub(super) const OLDEST: Version = pins::PYTHONS[0];

/// Names to try last if `PYTHON` is not set.
const UNNUMBERED: &[&str] = &["python3", "python"];

/// A release of Python: 3 and 11.
pub(crate) type Version = (u32, u32);

/// Returns whether a Python can be run and is built without the GIL.
pub(crate) fn is_free_threaded(python: &OsStr) -> bool {
    Interpreter::ask(python).is_some_and(|python| !python.has_gil)
}

/// Returns the message for a missing Python.
pub(super) fn missing((major, minor): Version) -> String {
    format!("Python {major}.{minor} is not installed")
}

/// Returns pyenv's Pythons of a version.
pub(crate) fn of_pyenv((major, minor): Version) -> impl Iterator<Item = PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let pyenv = env::var_os("PYENV_ROOT").map(PathBuf::from).or(home.map(|h| h.join(".pyenv")));
    let versions = pyenv.and_then(|root| fs::read_dir(root.join("versions")).ok());
    let versions = versions.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let prefix = format!("{major}.{minor}.");
    let matching = versions.filter(move |path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
    });
    matching.map(|path| path.join("bin/python"))
}

/// A Python of this machine.
pub(super) struct Interpreter {
    pub(super) version: Version,
    /// False for a free-threaded Python, which cannot load the wheel for the stable ABI.
    pub(super) has_gil: bool,
    /// Its path, as it reports it.
    pub(super) path: String,
}

impl Interpreter {
    /// Returns the oldest one that is new enough, or an error. A newer one accepts all code that an older one accepts.
    pub(super) fn find() -> Result<Self> {
        if let Some(python) = pins::PYTHONS.iter().find_map(|version| Self::of(*version)) {
            return Ok(python);
        }
        let mut too_old = Vec::new();
        for name in UNNUMBERED {
            match Self::ask(OsStr::new(name)) {
                Some(python) if python.fits() => return Ok(python),
                Some(python) => too_old.push(python.described()),
                None => {}
            }
        }
        too_old.dedup();
        let found = if too_old.is_empty() { "no Python".into() } else { too_old.join(", ") };
        Err(format!("found {found}; {}", Self::needed()))
    }

    /// Returns one of this version, by its name or from pyenv, whose own scripts start only one version.
    pub(super) fn of(version: Version) -> Option<Self> {
        let (major, minor) = version;
        let named = PathBuf::from(format!("python{major}.{minor}"));
        let candidates = [named].into_iter().chain(of_pyenv(version));
        let mut found = candidates.filter_map(|path| Self::ask(path.as_os_str()));
        // `python3.14` may be a free-threaded one.
        found.find(|python| python.version == version && python.has_gil)
    }

    /// Returns the one that `PYTHON` names.
    pub(super) fn named(name: &OsStr) -> Result<Self> {
        let shown = name.to_string_lossy();
        match Self::ask(name) {
            Some(python) if python.fits() => Ok(python),
            Some(python) => {
                Err(format!("PYTHON is {shown}: {}; {}", python.described(), Self::needed()))
            }
            None => Err(format!("PYTHON is {shown}, which cannot be run; {}", Self::needed())),
        }
    }

    /// Runs a Python to get its version and path. Returns `None` if it cannot be run: the name may be that of a version
    /// manager's script for a version that is not active.
    pub(super) fn ask(name: &OsStr) -> Option<Self> {
        let question = "import sys, sysconfig; print(*sys.version_info[:2], \
            int(not sysconfig.get_config_var('Py_GIL_DISABLED')), sys.executable)";
        Self::parse(&process::answer(Command::new(name).args(["-c", question]))?)
    }

    fn parse(answer: &str) -> Option<Self> {
        let mut parts = answer.splitn(4, ' ');
        let version = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let has_gil = parts.next()? == "1";
        Some(Self { version, has_gil, path: parts.next()?.to_owned() })
    }

    /// Returns whether the wheel for the stable ABI supports it.
    fn fits(&self) -> bool {
        self.version >= OLDEST && self.has_gil
    }

    fn described(&self) -> String {
        let kind = if self.has_gil { "" } else { " without the GIL" };
        format!("Python {}.{}{kind} at {}", self.version.0, self.version.1, self.path)
    }

    fn needed() -> String {
        let (major, minor) = OLDEST;
        format!(
            "{major}.{minor} or later with the GIL is needed; set PYTHON to its path. `cargo xtask free-threaded` \
             needs one without the GIL"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreter_output_is_parsed() {
        let python = Interpreter::parse("3 9 1 /a b/python").unwrap();
        assert_eq!(python.described(), "Python 3.9 at /a b/python");
        let fits = |answer| Interpreter::parse(answer).unwrap().fits();
        assert!(!python.fits() && !fits("3 10 1 /p") && fits("3 13 1 /p"));
        let free = Interpreter::parse("3 14 0 /p").unwrap();
        assert!(!free.fits());
        assert_eq!(free.described(), "Python 3.14 without the GIL at /p");
        assert!(Interpreter::parse("Python 2").is_none());
    }
}
