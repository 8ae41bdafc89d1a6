//! The paths in the text of a source.

/// Returns the code of a source, without comments, strings and the test module.
pub(super) fn of(source: &str) -> String {
    without_tests(&without_text(source))
}

/// Returns code without its test module, which comes last in a file.
fn without_tests(code: &str) -> String {
    let attributes = ["#[cfg(test)]\nmod tests {", "#[cfg(all(test, unix))]\nmod tests {"];
    let at = attributes.iter().filter_map(|attribute| code.find(attribute)).min();
    code[..at.unwrap_or(code.len())].to_owned()
}

/// Returns code without comments and strings.
fn without_text(source: &str) -> String {
    let (mut code, mut rest) = (String::new(), source);
    while let Some(at) = rest.find(['/', '"', '\'']) {
        let (before, found) = rest.split_at(at);
        code += before;
        let length = if found.starts_with("//") {
            found.find('\n').unwrap_or(found.len())
        } else if found.starts_with("/*") {
            found.find("*/").map_or(found.len(), |end| end + 2)
        } else if let Some(inside) = found.strip_prefix('"') {
            let hashes = before.len() - before.trim_end_matches('#').len();
            if before.trim_end_matches('#').ends_with('r') {
                let end = format!("\"{}", "#".repeat(hashes));
                inside.find(&end).map_or(found.len(), |at| at + 1 + end.len())
            } else {
                quoted(found)
            }
        } else if found.starts_with("'\"'") || found.starts_with("'/'") {
            3
        } else {
            code.push_str(&found[..1]);
            1
        };
        rest = &found[length..];
    }
    code + rest
}

/// Returns the length of a string with its quotation marks.
fn quoted(found: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in found.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    found.len()
}

/// Returns all paths of a module's code: those of `use`, except re-exports, and those in other code.
pub(super) fn paths(code: &str) -> Vec<Vec<String>> {
    let own = uses(code).into_iter().filter(|found| !found.is_public);
    let mut found: Vec<_> = own.map(|found| found.path).collect();
    let code = without_uses(code);
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = code.as_str();
    while let Some(at) = rest.find("::") {
        let begin = rest[..at].rfind(|c| !is_of_name(c)).map_or(0, |at| at + 1);
        let is_first = !rest[..begin].ends_with(':');
        let end = rest[begin..]
            .find(|c| !is_of_name(c) && c != ':')
            .map_or(rest.len(), |length| begin + length);
        let path = &rest[begin..end];
        // A macro that is called by a path is in the root, wherever its definition is.
        if is_first && begin < at && !rest[end..].starts_with('!') {
            let names = path.split("::").filter(|name| !name.is_empty());
            found.push(names.map(str::to_owned).collect());
        }
        rest = &rest[end.max(at + 2)..];
    }
    found
}

/// An item that a `use` names.
#[derive(Clone)]
pub(super) struct Use {
    pub(super) path: Vec<String>,
    /// Its name in the module.
    pub(super) name: String,
    is_public: bool,
}

/// Returns the start and the end of each tree of `use`, and true for a re-export.
fn trees(code: &str) -> Vec<(usize, usize, bool)> {
    let tree = |(at, _): (usize, &str)| {
        let line = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        let is_public = line.starts_with("pub") && !line.contains(['{', ';']);
        let end = code[at..].find(';').map(|length| at + length)?;
        (line.is_empty() || is_public).then_some((at + 4, end, is_public))
    };
    code.match_indices("use ").filter_map(tree).collect()
}

pub(super) fn uses(code: &str) -> Vec<Use> {
    let mut found = Vec::new();
    for (begin, end, is_public) in trees(code) {
        expand(&code[begin..end], &[], is_public, &mut found);
    }
    found
}

fn without_uses(code: &str) -> String {
    let (mut rest, mut at) = (String::new(), 0);
    for (begin, end, _) in trees(code) {
        rest += &code[at.min(begin)..begin];
        at = end;
    }
    rest + &code[at..]
}

/// Finds the paths of a tree: `a::{b, c as d}`.
fn expand(tree: &str, before: &[String], is_public: bool, found: &mut Vec<Use>) {
    let tree = tree.trim();
    if let Some((head, group)) = tree.split_once('{') {
        let head = head.trim().trim_end_matches("::").split("::").map(str::trim);
        let head = head.filter(|name| !name.is_empty()).map(str::to_owned);
        let before: Vec<_> = before.iter().cloned().chain(head).collect();
        let group = group.rsplit_once('}').map_or(group, |(group, _)| group);
        let branches = branches(group).into_iter();
        branches.for_each(|branch| expand(branch, &before, is_public, found));
    } else if !tree.is_empty() {
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path: Vec<_> = before
            .iter()
            .cloned()
            .chain(path.split("::").map(|name| name.trim().to_owned()))
            .filter(|name| name != "*")
            .collect();
        if !before.is_empty() {
            path.retain(|name| name != "self");
        }
        let last = path.last().cloned().unwrap_or_default();
        let name = if name.is_empty() { last } else { name.trim().to_owned() };
        found.push(Use { path, name, is_public });
    }
}

/// Returns the branches of a group, which may have groups themselves.
fn branches(group: &str) -> Vec<&str> {
    let (mut found, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&group[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&group[begin..]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_removed() {
        let code = without_text("a(\"b\\\"c\", 'd', r#\"e\"f\"#); // g\n/* h */i");
        assert_eq!(code, "a(, 'd', r#); \ni");
    }
}
