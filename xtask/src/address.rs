//! The address of the repository, and the links to its files that begin with it.

use std::path::Path;
use std::str::FromStr;
use std::{fmt, fs};

use crate::Result;

/// The path between an address and a file of the main branch, or a folder, on GitHub.
const FILES: &str = "/blob/main/";

/// The address of a repository: `https://HOST/OWNER/NAME`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Address {
    host: String,
    pub(crate) owner: String,
    name: String,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).map_err(|reason| {
            format!("`{text}` is not the address of a repository: {reason}; write `https://HOST/OWNER/NAME`")
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}/{}/{}", self.host, self.owner, self.name)
    }
}

impl Address {
    /// Returns the address of a file or folder, whose path is from the root.
    pub(crate) fn of_file(&self, path: &str) -> String {
        format!("{self}{FILES}{path}")
    }
}

fn parse(text: &str) -> Result<Address> {
    let rest = text.strip_prefix("https://").ok_or("it does not begin with `https://`")?;
    let parts: Vec<_> = rest.split('/').collect();
    let [host, owner, name] = parts[..] else {
        return Err(format!("it has {} parts after `https://`, not 3", parts.len()));
    };
    let is_word = |word: &str, others: &str| {
        word.starts_with(|c: char| c.is_ascii_alphanumeric() || others.contains(c))
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || others.contains(c))
    };
    if !host.contains('.') || !host.split('.').all(|label| is_word(label, "")) {
        return Err(format!("`{host}` is not the name of a host"));
    }
    for (word, meaning) in [(owner, "an owner"), (name, "a repository")] {
        if !is_word(word, "._") || word.chars().all(|c| c == '.') {
            return Err(format!("`{word}` is not the name of {meaning}"));
        }
    }
    if owner == "OWNER" {
        return Err("`OWNER` stands for the name of an owner".to_owned());
    }
    if name.to_ascii_lowercase().ends_with(".git") {
        return Err("`.git` at its end is for `git clone`".to_owned());
    }
    Ok(Address { host: host.to_owned(), owner: owner.to_owned(), name: name.to_owned() })
}

/// Returns the address in `[workspace.package]` of the root's manifest, which each published crate inherits.
pub(crate) fn declared(root: &Path) -> Result<Option<String>> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"));
    let manifest = manifest.map_err(|e| format!("Cargo.toml: {e}"))?;
    let line =
        |line: &str| line.strip_prefix("repository = \"")?.strip_suffix('"').map(str::to_owned);
    Ok(manifest.lines().find_map(line))
}

/// Returns the path from the root, with its anchor, if a link leads to a file of the repository with this address.
pub(crate) fn path_in<'a>(address: &str, target: &'a str) -> Option<&'a str> {
    target.strip_prefix(address)?.strip_prefix(FILES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_parsed_and_written_back() {
        for text in [
            "https://github.com/dlbridge/dlbridge",
            "https://git.example.org/a-b_c/d.e",
            "https://example.org/a/.github",
        ] {
            assert_eq!(text.parse::<Address>().map(|a| a.to_string()), Ok(text.to_owned()));
        }
        let address: Address = "https://example.org/a/b".parse().unwrap();
        assert_eq!(address.of_file("docs/c.md"), "https://example.org/a/b/blob/main/docs/c.md");
        assert_eq!(path_in("https://example.org/a/b", &address.of_file("c#d")), Some("c#d"));
        assert_eq!(
            path_in("https://example.org/a/b", "https://example.org/a/b2/blob/main/c"),
            None
        );
    }

    #[test]
    fn malformed_address_is_refused() {
        for (text, reason) in [
            ("", "does not begin with `https://`"),
            ("github.com/a/b", "does not begin with `https://`"),
            ("http://github.com/a/b", "does not begin with `https://`"),
            ("git@github.com:a/b", "does not begin with `https://`"),
            ("https://github.com/a", "it has 2 parts"),
            ("https://github.com/a/b/", "it has 4 parts"),
            ("https://github.com/a/b/tree/main", "it has 5 parts"),
            ("https://github.com//b", "`` is not the name of an owner"),
            ("https://github.com/a/", "`` is not the name of a repository"),
            ("https://github.com/a/..", "`..` is not the name of a repository"),
            ("https://github.com/a/b?c", "`b?c` is not the name of a repository"),
            ("https://github.com/-a/b", "`-a` is not the name of an owner"),
            ("https://HOST/OWNER/NAME", "`HOST` is not the name of a host"),
            ("https://user@github.com/a/b", "`user@github.com` is not the name of a host"),
            ("https://github..com/a/b", "`github..com` is not the name of a host"),
            ("https://github.com/a/b.git", "`.git` at its end"),
            ("https://github.com/a/b.GIT", "`.git` at its end"),
            ("https://github.com/OWNER/NAME", "`OWNER` stands for"),
            ("https://github.com/a/b\"\nc = \"", "is not the name of a repository"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(error.ends_with("write `https://HOST/OWNER/NAME`"), "{error}");
        }
    }
}
