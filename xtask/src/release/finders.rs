//! The versions of the project that a manifest, a lock file or a Python project states.

use std::ops::Range;

use super::version::Version;

/// The start of the names of the project's crates and distributions.
pub(super) const PROJECT: &str = "dlbridge";

/// The operators that a requirement keeps when its version changes.
pub(super) const OF_CARGO: [&str; 3] = ["", "=", "^"];
pub(super) const OF_PYTHON: [&str; 4] = ["==", "===", "~=", ">="];

/// The versions that a file states.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    /// The bytes of each version, and true for that of a Python package.
    pub(super) versions: Vec<(Range<usize>, bool)>,
    /// The bytes of requirements of the project in another form, such as `>=0.1, <0.3`.
    pub(super) unclear: Vec<Range<usize>>,
}

/// Returns the lines of a text with the byte at which each starts.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let at = start;
        start += line.len();
        (at, line.trim_end())
    })
}

/// Returns the version in `[workspace.package]`.
pub(super) fn of_workspace(manifest: &str) -> Option<Range<usize>> {
    let mut inside = false;
    lines(manifest).find_map(|(start, line)| {
        if line.starts_with('[') {
            inside = line == "[workspace.package]";
        }
        let version = line.strip_prefix("version = \"")?.strip_suffix('"')?;
        let at = start + "version = \"".len();
        inside.then(|| at..at + version.len())
    })
}

/// Returns the name of a package with the workspace's version.
pub(super) fn member(manifest: &str) -> Option<String> {
    manifest.lines().find(|line| *line == "version.workspace = true")?;
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = \""))?;
    Some(name.trim_end_matches('"').to_owned())
}

/// Returns the version of the workspace, and those of dependencies on the project's crates.
pub(super) fn in_manifest(text: &str) -> Found {
    let mut found = Found::default();
    found.versions.extend(of_workspace(text).map(|at| (at, false)));
    let mut in_table = false;
    for (start, line) in lines(text) {
        if line.trim_start().starts_with('[') {
            let below = &text[start + line.len()..];
            in_table = is_table_of_project(line) || renames_in_table(line, below);
        }
        let Some(at) = requirement(line, in_table) else { continue };
        let written = &line[at.clone()];
        let version = written.trim_start_matches(['=', '^']);
        let operator = &written[..written.len() - version.len()];
        let at = start + at.start..start + at.end;
        match version.parse::<Version>() {
            Ok(_) if OF_CARGO.contains(&operator) => {
                found.versions.push((at.start + operator.len()..at.end, false));
            }
            _ => found.unclear.push(at),
        }
    }
    found
}

/// Returns whether a header is that of a dependency on the project: `[dependencies.dlbridge-gpu]`.
pub(super) fn is_table_of_project(header: &str) -> bool {
    let header = header.trim().trim_start_matches('[').split(']').next().unwrap_or_default();
    let Some((before, name)) = header.rsplit_once('.') else { return false };
    before.ends_with("dependencies") && name.trim_matches('"').starts_with(PROJECT)
}

/// Returns whether the table of a dependency has the name of a crate of the project in a line below.
fn renames_in_table(header: &str, below: &str) -> bool {
    let mut table = below.lines().take_while(|line| !line.trim_start().starts_with('['));
    header.contains("dependencies.") && table.any(is_renamed)
}

/// Returns whether a dependency with another name is a crate of the project: `package = "dlbridge-gpu"`.
pub(super) fn is_renamed(line: &str) -> bool {
    line.contains(&format!("package = \"{PROJECT}"))
}

/// Returns the bytes of a requirement of the project in a line of a manifest: `dlbridge = "0.1.0"`, `dlbridge = { version
/// = "=0.1.0", ... }`, or `version = "0.1.0"` in the table of a dependency.
fn requirement(line: &str, in_table: bool) -> Option<Range<usize>> {
    let (key, value) = line.split_once('=')?;
    let value_at = line.len() - value.len();
    let key = key.trim().trim_matches('"');
    if key.starts_with('#') {
        return None;
    }
    let open = if in_table && key == "version" {
        value.find('"')?
    } else if !key.starts_with(PROJECT) && !is_renamed(value) {
        return None;
    } else if value.trim_start().starts_with('"') {
        // `dlbridge.path = "..."` is not a version.
        if key.contains('.') && !key.ends_with(".version") {
            return None;
        }
        value.find('"')?
    } else {
        value.match_indices("version").find_map(|(at, key)| {
            let version = value[at + key.len()..].trim_start().strip_prefix('=')?.trim_start();
            version.starts_with('"').then(|| value.len() - version.len())
        })?
    };
    let at = value_at + open + 1;
    Some(at..at + line[at..].find('"')?)
}

/// Returns the versions of the packages with the workspace's version.
pub(super) fn in_lock_file(text: &str, members: &[String]) -> Found {
    let all: Vec<_> = lines(text).collect();
    let quoted = |line: &str, key: &str| {
        Some(line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')?.to_owned())
    };
    let package = |lines: &[(usize, &str)]| {
        let [(_, name), (start, version), (_, next)] = lines else { return None };
        let name = quoted(name, "name")?;
        let version = quoted(version, "version")?;
        // A package from a registry has a source.
        if next.starts_with("source") || !members.contains(&name) {
            return None;
        }
        let at = start + "version = \"".len();
        Some((at..at + version.len(), false))
    };
    // The file may end with a version.
    let padded = [all, vec![(text.len(), "")]].concat();
    Found { versions: padded.windows(3).filter_map(package).collect(), unclear: Vec::new() }
}

/// Returns the versions in a Python project's requirements of the project's own distributions: `"dlbridge==0.1.0"`.
pub(super) fn in_project(text: &str) -> Found {
    let mut found = Found::default();
    for (start, line) in lines(text).filter(|(_, line)| !line.trim_start().starts_with('#')) {
        let mut rest = line;
        while let Some((_, opened)) = rest.split_once(['"', '\'']) {
            let quote = &rest[rest.len() - opened.len() - 1..][..1];
            let Some((string, after)) = opened.split_once(quote) else { break };
            rest = after;
            let at = start + line.len() - opened.len();
            let Some(specifier) = specifier(string) else { continue };
            let operator = &specifier[..specifier.len() - without_operator(specifier).len()];
            let version = specifier[operator.len()..].split(';').next().unwrap_or_default().trim();
            if OF_PYTHON.contains(&operator) && is_of_three_numbers(version) {
                let begin = string.len() - specifier.len() + operator.len();
                let begin = begin + string[begin..].find(version).unwrap_or_default();
                found.versions.push((at + begin..at + begin + version.len(), true));
            } else {
                found.unclear.push(at..at + string.len());
            }
        }
    }
    found
}

/// Returns the specifier of a requirement of one of the project's distributions, which starts with its operator.
fn specifier(string: &str) -> Option<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let rest = string.trim_start_matches(is_name);
    let rest = match rest.strip_prefix('[') {
        Some(extras) => extras.split_once(']')?.1,
        None => rest,
    };
    let rest = rest.trim_start();
    let has_operator = without_operator(rest).len() < rest.len();
    (string.starts_with(PROJECT) && has_operator).then_some(rest)
}

fn without_operator(text: &str) -> &str {
    text.trim_start_matches(is_operator)
}

pub(super) fn is_operator(c: char) -> bool {
    "<>=~!^".contains(c)
}

/// Returns whether a text is a version with three numbers, as Python writes it: `0.2.0` or `0.2.0rc1`.
fn is_of_three_numbers(text: &str) -> bool {
    let parts: Vec<_> = text.split('.').collect();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    parts.len() == 3
        && parts[..2].iter().all(digits)
        && parts[2].starts_with(|c: char| c.is_ascii_digit())
        && parts[2].bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the versions and the unclear requirements as text.
    fn texts(text: &str, found: Found) -> (Vec<&str>, Vec<&str>) {
        let versions = found.versions.into_iter().map(|(at, _)| &text[at]).collect();
        (versions, found.unclear.into_iter().map(|at| &text[at]).collect())
    }

    #[test]
    fn only_the_projects_versions_are_found_in_a_manifest() {
        let text = "[workspace.package]\nversion = \"1.2.3\"\n[x]\nversion = \"9.9.9\"\n\
            dlbridge = { version = \"=1.2.4\", path = \"a\" }\ndlbridge-x = { path = \"a\" }\n\
            serde = { version = \"1.2.3\", path = \"b\" }\n";
        assert_eq!(texts(text, in_manifest(text)), (vec!["1.2.3", "1.2.4"], vec![]));
    }

    #[test]
    fn every_form_of_a_dependency_is_found_in_a_manifest() {
        for line in [
            "dlbridge = \"1.2.4\"",
            "dlbridge = \"^1.2.4\"",
            "  dlbridge-gpu = { path = \"a\", version = \"=1.2.4\" }",
            "dlbridge-gpu.version = \"1.2.4\"",
            "\"dlbridge\" = \"1.2.4\"",
            "gpu = { package = \"dlbridge-gpu\", version = \"1.2.4\" }",
            "[dependencies.dlbridge-fork]\npath = \"a\"\nversion = \"1.2.4\" # ours",
            "[target.'cfg(unix)'.dev-dependencies.gpu]\nversion = \"1.2.4\"\npackage = \"dlbridge-gpu\"",
        ] {
            assert_eq!(texts(line, in_manifest(line)), (vec!["1.2.4"], vec![]), "{line}");
        }
        for (line, written) in [
            ("dlbridge = \"~1.2.4\"", "~1.2.4"),
            ("dlbridge = \"1.2\"", "1.2"),
            ("dlbridge = { version = \">=1.2.4, <2\" }", ">=1.2.4, <2"),
            ("[dependencies.dlbridge]\nversion = \"*\"", "*"),
        ] {
            assert_eq!(texts(line, in_manifest(line)), (vec![], vec![written]), "{line}");
        }
        for line in [
            "# dlbridge = \"1.2\"",
            "dlbridge.path = \"1.2.4\"",
            "dlbridge = { workspace = true, features = [\"a\"] }",
            "dlbridge-x = [\"dep:dlbridge-x\"]",
            "[dependencies.dlbridge]\npath = \"a\"\n[dependencies.serde]\nversion = \"1.2.4\"",
        ] {
            assert_eq!(in_manifest(line), Found::default(), "{line}");
        }
    }

    #[test]
    fn only_members_are_found_in_a_lock_file() {
        let text = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"r\"\n\n[[package]]\n\
            name = \"b\"\nversion = \"2.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"3.0.0\"\n";
        assert_eq!(texts(text, in_lock_file(text, &["a".to_owned()])), (vec!["3.0.0"], vec![]));
    }

    #[test]
    fn only_requirements_of_our_own_are_found_in_a_project() {
        let text = "version = \"1.0.0\"\na = [\"numpy==1.0.0\", \"dlbridge==1.0.1\"]\n\
            b = [\"dlbridge\", \"dlbridge-conformance==1.0.2\"]\ndlbridge = \"x==1.0.0\"\n\
            c = ['dlbridge~=1.0.3', \"dlbridge[files] >= 1.0.4rc1; python_version > '3.11'\"]\n\
            name = \"dlbridge._core\"\n# \"dlbridge==1.0.9\"\n";
        let versions = vec!["1.0.1", "1.0.2", "1.0.3", "1.0.4rc1"];
        assert_eq!(texts(text, in_project(text)), (versions, vec![]));
        for requirement in [
            "dlbridge>=1.0",
            "dlbridge==1.0.*",
            "dlbridge>=1.0.1,<2",
            "dlbridge<2",
            "dlbridge!=1.0.1",
        ] {
            let text = format!("a = [\"{requirement}\"]");
            assert_eq!(texts(&text, in_project(&text)), (vec![], vec![requirement]));
        }
    }
}
