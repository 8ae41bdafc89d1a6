//! The versions of the project that a page states, in its commands and examples.

use super::finders::{
    Found, OF_CARGO, OF_PYTHON, PROJECT, is_operator, is_renamed, is_table_of_project, lines,
};
use super::version::Version;

/// Returns the declared version in commands and manifests of a page. Pages also have other versions, and versions of
/// measured releases.
pub(super) fn in_page(text: &str, declared: &Version) -> Found {
    let mut found = Found::default();
    let mut find = |version: &str, of_python: bool, form: fn(&Line<'_>) -> Form| {
        let mut in_table = false;
        for (start, line) in lines(text) {
            if line.trim_start().starts_with(['[', '`']) {
                in_table = is_table_of_project(line);
            }
            for (at, _) in line.match_indices(version) {
                let (before, after) = (&line[..at], &line[at + version.len()..]);
                let at = start + at..start + at + version.len();
                match form(&Line { line: line.trim_start(), before, after, in_table }) {
                    Form::Other => {}
                    Form::Known => found.versions.push((at, of_python)),
                    Form::Unclear => found.unclear.push(start..start + line.len()),
                }
            }
        }
    };
    find(&declared.to_string(), false, of_cargo);
    find(&declared.of_python(), true, of_python);
    found.versions.sort_by_key(|(at, _)| at.start);
    found
}

/// A line of a page with the declared version.
struct Line<'a> {
    /// The line without the spaces before it.
    line: &'a str,
    /// The text before and after the version.
    before: &'a str,
    after: &'a str,
    /// True in the table of a dependency on the project.
    in_table: bool,
}

impl Line<'_> {
    /// Returns the text before the version's operator, and the operator.
    fn operator(&self) -> (&str, &str) {
        let before = self.before.trim_end();
        let bare = before.trim_end_matches(is_operator);
        (bare, &before[bare.len()..])
    }

    /// Returns whether another version only begins with this one. The full stop of a sentence ends it.
    fn goes_on(&self) -> bool {
        let mut next = self.after.chars();
        match next.next() {
            Some('.') => next.next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '*'),
            Some(c) => c.is_ascii_alphanumeric() || "-+_".contains(c),
            None => false,
        }
    }

    /// Returns the form of a requirement of the project, with an operator of those that are written.
    fn form(&self, operator: &str, known: &[&str]) -> Form {
        let after = self.after.trim_start();
        let one =
            !after.strip_prefix(',').is_some_and(|rest| rest.trim_start().starts_with(is_operator));
        match (self.goes_on(), one && known.contains(&operator)) {
            (true, _) => Form::Other,
            (false, true) => Form::Known,
            (false, false) => Form::Unclear,
        }
    }
}

/// The form in which a page has a version.
enum Form {
    /// Something else than a requirement of the project.
    Other,
    /// A requirement with one version.
    Known,
    /// A requirement that cannot be written.
    Unclear,
}

/// Returns the form of a requirement in a manifest or after `@`: `dlbridge@`, `dlbridge = "`, `dlbridge = { version = "`.
fn of_cargo(line: &Line<'_>) -> Form {
    let (bare, operator) = line.operator();
    let names_project = line.line.starts_with(PROJECT)
        || is_renamed(line.line)
        || (line.in_table && line.line.starts_with("version"));
    let in_toml = names_project && bare.ends_with(" = \"");
    if in_toml || (bare.ends_with('@') && last_word(bare).starts_with(PROJECT)) {
        return line.form(operator, &OF_CARGO);
    }
    Form::Other
}

/// Returns the form of a requirement of a distribution, `dlbridge==`, or of the name of a file in a command, `dlbridge-`.
fn of_python(line: &Line<'_>) -> Form {
    let is_command = line.line.starts_with('$');
    if is_command && is_start_of_file(last_word(line.before)) {
        let ends = !line.after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '+');
        return if ends { Form::Known } else { Form::Other };
    }
    let (bare, operator) = line.operator();
    // `dlbridge = 0.1.0` is not a requirement in Python.
    if operator.is_empty() || operator == "=" || !last_word(bare.trim_end()).starts_with(PROJECT) {
        return Form::Other;
    }
    line.form(operator, &OF_PYTHON)
}

/// Returns whether a word starts the name of a wheel or source distribution: `dlbridge_conformance-`.
fn is_start_of_file(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default();
    name.starts_with(PROJECT) && name.strip_suffix('-').is_some_and(|name| !name.contains('-'))
}

fn last_word(text: &str) -> &str {
    text.rsplit([' ', '`', '\'', '"']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Found {
        in_page(line, &"1.0.0-rc.1".parse().unwrap())
    }

    #[test]
    fn only_requirements_are_found_in_a_page() {
        for (line, of_python) in [
            ("`cargo add dlbridge-pyo3@1.0.0-rc.1`", false),
            ("dlbridge = \"1.0.0-rc.1\"", false),
            ("dlbridge = { version = \"1.0.0-rc.1\", features = [] }", false),
            ("dlbridge-ops-macros = \"=1.0.0-rc.1\"", false),
            ("    dlbridge = \"^1.0.0-rc.1\"", false),
            ("[dependencies.dlbridge-fork]\nversion = \"1.0.0-rc.1\"", false),
            ("gpu = { package = \"dlbridge-gpu\", version = \"1.0.0-rc.1\" }", false),
            ("$ pip install dlbridge==1.0.0rc1", true),
            ("Install dlbridge==1.0.0rc1.", true),
            ("    dependencies = [\"dlbridge ~= 1.0.0rc1\"]", true),
            ("`dlbridge>=1.0.0rc1`", true),
            ("  $ python tests/gpu --wheel dlbridge-1.0.0rc1-cp311-abi3-x.whl", true),
            ("$ pip install dist/dlbridge_conformance-1.0.0rc1.tar.gz", true),
        ] {
            let Found { versions, unclear } = found(line);
            assert!(unclear.is_empty(), "{line}");
            let [(_, is_of_python)] = versions[..] else { panic!("{line}") };
            assert_eq!(is_of_python, of_python, "{line}");
        }
        for line in [
            "Run with dlbridge 1.0.0-rc.1",
            "$ pip install numpy==1.0.0rc1",
            "dlbridge==1.0.0rc12",
            "dlbridge==1.0.0rc1.dev3",
            "dlbridge==1.0.0rc1+local",
            "dlbridge@1.0.0-rc.1-x",
            "wheel: dlbridge-1.0.0rc1-cp311-abi3-x.whl",
            "version = \"1.0.0-rc.1\"",
            "[dependencies.serde]\nversion = \"1.0.0-rc.1\"",
        ] {
            assert_eq!(found(line), Found::default(), "{line}");
        }
        for line in [
            "dlbridge = \"~1.0.0-rc.1\"",
            "dlbridge = \">=1.0.0-rc.1, <2\"",
            "dlbridge = \"1.0.0-rc.1, <2\"",
            "`dlbridge>=1.0.0rc1,<2`",
            "dlbridge!=1.0.0rc1",
        ] {
            let Found { versions, unclear } = found(line);
            assert!(versions.is_empty(), "{line}");
            let [std::ops::Range { start: 0, end }] = unclear[..] else { panic!("{line}") };
            assert_eq!(end, line.len());
        }
    }

    #[test]
    fn later_version_that_begins_like_the_declared_one_is_left() {
        let found = |line: &str| in_page(line, &"0.1.0".parse().unwrap());
        for line in [
            "dlbridge==0.1.0rc1",
            "dlbridge@0.1.0-rc.1",
            "dlbridge = \"0.1.0-rc.1\"",
            "dlbridge==0.1.0.1",
        ] {
            assert_eq!(found(line), Found::default(), "{line}");
        }
        assert_eq!(found("dlbridge~=0.1.0").versions.len(), 1);
    }
}
