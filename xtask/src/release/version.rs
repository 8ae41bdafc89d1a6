//! A version of the project.

use std::fmt;
use std::str::FromStr;

use crate::Result;

/// A version, as Cargo writes it: `0.2.0` or `0.2.0-rc.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    numbers: [u64; 3],
    stage: Stage,
}

/// The stages before a release, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Alpha(u64),
    Beta(u64),
    Candidate(u64),
    Release,
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text).ok_or_else(|| {
            format!(
                "`{text}` is not a version of this project; write `MAJOR.MINOR.PATCH`, or \
                 `MAJOR.MINOR.PATCH-rc.N` (`alpha`, `beta` or `rc`) before a release"
            )
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        match self.stage {
            Stage::Alpha(n) => write!(f, "-alpha.{n}"),
            Stage::Beta(n) => write!(f, "-beta.{n}"),
            Stage::Candidate(n) => write!(f, "-rc.{n}"),
            Stage::Release => Ok(()),
        }
    }
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let (numbers, stage) = match text.split_once('-') {
            None => (text, Stage::Release),
            Some((numbers, stage)) => {
                let (name, n) = stage.split_once('.')?;
                let n = number(n)?;
                let stage = match name {
                    "alpha" => Stage::Alpha(n),
                    "beta" => Stage::Beta(n),
                    "rc" => Stage::Candidate(n),
                    _ => return None,
                };
                (numbers, stage)
            }
        };
        let numbers: Vec<u64> = numbers.split('.').map(number).collect::<Option<_>>()?;
        Some(Self { numbers: numbers.try_into().ok()?, stage })
    }

    /// Returns the version as Python writes it: `0.2.0rc1`.
    pub(crate) fn of_python(&self) -> String {
        let text = self.to_string();
        text.replace("-alpha.", "a").replace("-beta.", "b").replace("-rc.", "rc")
    }

    /// Returns false for a version before a release, such as a candidate.
    pub(crate) fn is_release(&self) -> bool {
        self.stage == Stage::Release
    }

    /// Returns whether this is an alpha, beta or candidate of a version, or an earlier one of the same numbers.
    pub(crate) fn is_before_release_of(&self, version: &Self) -> bool {
        self.numbers == version.numbers && self < version
    }

    /// Returns the name of the version's tag.
    pub(crate) fn tag(&self) -> String {
        format!("v{self}")
    }
}

/// Parses a number as SemVer writes it: without a leading zero.
fn number(text: &str) -> Option<u64> {
    let plain = text == "0" || !text.starts_with('0');
    (plain && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn version_is_parsed_and_written_back() {
        for text in ["0.1.0", "1.20.3", "0.2.0-alpha.1", "0.2.0-beta.10", "0.2.0-rc.0"] {
            assert_eq!(version(text).to_string(), text);
        }
        assert_eq!(version("0.2.0-rc.1").of_python(), "0.2.0rc1");
        assert_eq!(version("0.2.0").tag(), "v0.2.0");
        assert!(version("0.2.0").is_release() && !version("0.2.0-rc.1").is_release());
    }

    #[test]
    fn malformed_version_is_refused() {
        for text in
            ["", "1", "0.1", "v0.1.0", "0.1.0.0", "0.01.0", "0.1.x", "0.1.0-dev.1", "0.1.0-rc1"]
        {
            let error = text.parse::<Version>().unwrap_err();
            assert!(error.contains("MAJOR.MINOR.PATCH"), "{text}: {error}");
        }
    }

    #[test]
    fn version_before_a_release_is_older() {
        let ordered = ["0.1.9", "0.2.0-alpha.2", "0.2.0-beta.1", "0.2.0-rc.1", "0.2.0", "0.10.0"];
        assert!(ordered.map(version).is_sorted_by(|a, b| a < b));
        let before = |a: &str, b: &str| version(a).is_before_release_of(&version(b));
        assert!(before("0.2.0-rc.1", "0.2.0") && before("0.2.0-alpha.1", "0.2.0-rc.1"));
        assert!(
            !before("0.2.0", "0.2.0")
                && !before("0.2.0-rc.1", "0.3.0")
                && !before("0.2.0", "0.2.0-rc.1")
        );
    }
}
