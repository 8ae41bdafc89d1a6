//! Reads the part of YAML that workflows use: mappings, lists, blocks of text, and lists and mappings in one line. The
//! schemas of GitHub check the rest.

/// A value in a file.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    /// The line at which the value starts, from 1.
    pub(super) line: usize,
    /// The names that lead to the value: `jobs`, `test`, `steps`, `0`, `run`. An item of a list has its number.
    pub(super) path: Vec<String>,
    /// The value without quotes; empty above other entries.
    pub(super) value: String,
}

/// The entries of a file, in their order.
#[derive(Debug)]
pub(super) struct Yaml(pub(super) Vec<Entry>);

/// A key or an item whose entries follow.
struct Node {
    indent: usize,
    name: String,
    is_item: bool,
    items: usize,
}

impl Yaml {
    /// Returns the value at a path; empty above other entries.
    pub(super) fn get(&self, path: &[&str]) -> Option<&str> {
        Some(self.0.iter().find(|entry| entry.path == path)?.value.as_str())
    }

    /// Returns the entries below a path.
    pub(super) fn below<'a>(&'a self, path: &'a [&str]) -> impl Iterator<Item = &'a Entry> {
        let is_below = move |entry: &&Entry| entry.path.len() > path.len() && starts(entry, path);
        self.0.iter().filter(is_below)
    }

    /// Returns the names directly below a path.
    pub(super) fn names(&self, path: &[&str]) -> Vec<&str> {
        let below = |entry: &&Entry| entry.path.len() > path.len() && starts(entry, path);
        let all = self.0.iter().filter(below).map(|entry| entry.path[path.len()].as_str());
        let mut names: Vec<_> = all.collect();
        names.dedup();
        names
    }

    /// Returns the values of a list, or the single value.
    pub(super) fn list(&self, path: &[&str]) -> Vec<&str> {
        let item = |entry: &&Entry| entry.path.len() == path.len() + 1 && starts(entry, path);
        let items: Vec<_> = self.0.iter().filter(item).map(|entry| entry.value.as_str()).collect();
        match self.get(path) {
            Some(value) if items.is_empty() && !value.is_empty() => vec![value],
            _ => items,
        }
    }
}

fn starts(entry: &Entry, path: &[&str]) -> bool {
    entry.path.iter().zip(path).all(|(a, b)| a == b)
}

/// Reads a file.
pub(super) fn read(text: &str) -> Yaml {
    let lines: Vec<_> = text.lines().collect();
    let mut entries = Vec::new();
    let mut nodes: Vec<Node> = Vec::new();
    let mut top_items = 0;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        let mut content = line.trim();
        if content.is_empty() || content.starts_with('#') || content == "---" {
            continue;
        }
        let mut indent = indent_of(line);
        while let Some(rest) = item(content) {
            let inside =
                |node: &Node| node.indent > indent || (node.indent == indent && node.is_item);
            while nodes.last().is_some_and(inside) {
                nodes.pop();
            }
            let items = nodes.last_mut().map_or(&mut top_items, |node| &mut node.items);
            let name = items.to_string();
            *items += 1;
            nodes.push(Node { indent, name, is_item: true, items: 0 });
            indent += content.len() - rest.len();
            content = rest;
        }
        let Some((key, value)) = key(content) else {
            push(&mut entries, &path(&nodes), at, content);
            continue;
        };
        while nodes.last().is_some_and(|node| node.indent >= indent) {
            nodes.pop();
        }
        nodes.push(Node { indent, name: unquoted(key).to_owned(), is_item: false, items: 0 });
        let path = path(&nodes);
        let deeper = |line: &&&str| line.trim().is_empty() || indent_of(line) > indent;
        let value = without_comment(value);
        if value.starts_with(['|', '>']) {
            let block: Vec<_> =
                lines[at..].iter().take_while(deeper).map(|line| line.trim()).collect();
            let end = if value.starts_with('|') { "\n" } else { " " };
            entries.push(Entry { line: at + 1, path, value: block.join(end) });
            at += block.len();
        } else if value.is_empty() {
            entries.push(Entry { line: at, path, value: String::new() });
        } else {
            // A value may go on in the next lines.
            let more = lines[at..].iter().take_while(deeper);
            let more: Vec<_> = more.map(|line| without_comment(line.trim())).collect();
            let value =
                [value].into_iter().chain(more.iter().copied()).collect::<Vec<_>>().join(" ");
            push(&mut entries, &path, at, value.trim());
            at += more.len();
        }
    }
    Yaml(entries)
}

/// Adds a value, and the entries of a list or mapping in one line.
fn push(entries: &mut Vec<Entry>, path: &[String], line: usize, value: &str) {
    let value = without_comment(value);
    entries.push(Entry { line, path: path.to_vec(), value: unquoted(value).to_owned() });
    let inside = |open, close| value.strip_prefix(open)?.strip_suffix(close);
    let add = |(name, value): (String, &str)| {
        let path = path.iter().cloned().chain([unquoted(&name).to_owned()]).collect();
        Entry { line, path, value: unquoted(value.trim()).to_owned() }
    };
    let parts = |list: &'_ str| -> Vec<String> {
        list.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
    };
    if let Some(list) = inside('[', ']') {
        let parts = parts(list);
        entries.extend(parts.iter().enumerate().map(|(n, part)| add((n.to_string(), part))));
    } else if let Some(mapping) = inside('{', '}') {
        let parts = parts(mapping);
        let keys = parts.iter().filter_map(|part| part.split_once(':'));
        entries.extend(keys.map(|(name, value)| add((name.trim().to_owned(), value))));
    }
}

fn path(nodes: &[Node]) -> Vec<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns the content of an item of a list.
fn item(content: &str) -> Option<&str> {
    if content == "-" {
        return Some("");
    }
    Some(content.strip_prefix("- ")?.trim_start())
}

/// Returns a key and the value behind it.
fn key(content: &str) -> Option<(&str, &str)> {
    let quote = content.chars().next().filter(|c| "\"'".contains(*c));
    let after_quote = quote.and_then(|quote| Some(content[1..].find(quote)? + 2)).unwrap_or(0);
    let rest = &content[after_quote..];
    // A scalar in quotes, or a list in one line.
    if (quote.is_some() && !rest.starts_with(':')) || content.starts_with(['[', '{']) {
        return None;
    }
    let colon = after_quote + rest.find(": ").or_else(|| rest.strip_suffix(':').map(str::len))?;
    Some((&content[..colon], content[colon + 1..].trim()))
}

/// Returns a value without the comment behind it.
fn without_comment(value: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in value.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '#' && before == ' ' => return value[..at].trim_end(),
            // An apostrophe inside of a word is not a quote.
            None if "\"'".contains(c) && " [{,(".contains(before) => quote = Some(c),
            _ => {}
        }
        before = c;
    }
    value
}

fn unquoted(value: &str) -> &str {
    let inside = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(usize, String, String)> {
        let shown = |entry: Entry| (entry.line, entry.path.join("/"), entry.value);
        read(text).0.into_iter().filter(|entry| !entry.value.is_empty()).map(shown).collect()
    }

    fn expected(values: &[(usize, &str, &str)]) -> Vec<(usize, String, String)> {
        values
            .iter()
            .map(|(line, path, value)| (*line, path.to_string(), value.to_string()))
            .collect()
    }

    #[test]
    fn every_value_is_read_with_its_path() {
        let text = "on:\n  push: # comment\n\njobs:\n  a:\n    if: x == 'a # b' # c\n    steps:\n      \
            - uses: b@1 # v1\n        with:\n          \"k\": 'v'\n      - run: |\n          one\n\n          \
            two\n        env:\n          A: 1\n    needs: [b, \"c\"]\n";
        let expected = expected(&[
            (6, "jobs/a/if", "x == 'a # b'"),
            (8, "jobs/a/steps/0/uses", "b@1"),
            (10, "jobs/a/steps/0/with/k", "v"),
            (12, "jobs/a/steps/1/run", "one\n\ntwo"),
            (16, "jobs/a/steps/1/env/A", "1"),
            (17, "jobs/a/needs", "[b, \"c\"]"),
            (17, "jobs/a/needs/0", "b"),
            (17, "jobs/a/needs/1", "c"),
        ]);
        assert_eq!(values(text), expected);
    }

    #[test]
    fn list_at_the_indent_of_its_key_is_read() {
        let text = "a:\n- x\n- y: 1\n  z: {p: q}\nb: one\n  two\nc: >-\n  three\n  four\n";
        let expected = expected(&[
            (2, "a/0", "x"),
            (3, "a/1/y", "1"),
            (4, "a/1/z", "{p: q}"),
            (4, "a/1/z/p", "q"),
            (5, "b", "one two"),
            (8, "c", "three four"),
        ]);
        assert_eq!(values(text), expected);
        let yaml = read(text);
        assert_eq!((yaml.list(&["b"]), yaml.list(&["a"])), (vec!["one two"], vec!["x"]));
        assert_eq!(yaml.names(&["a", "1"]), ["y", "z"]);
    }
}
