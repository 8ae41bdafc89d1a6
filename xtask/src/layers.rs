//! `cargo xtask layers`: for each crate, its modules and the modules that each imports, and the circles among them, and among
//! folders.
//!
//! It reads paths, as text: those of `use`, and those in code that begin with `crate`, `super`, `self` or a module below. A re-export
//! (`pub use`) is no import, and a name that is re-exported leads to where the item is. Tests in a file, what macros write, and methods, which
//! have no path, are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::{Result, Workplace, crates};

/// A module by its path: `protocol::arrow`; empty for the root of the crate.
type Module = String;

/// The imports of each module.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// The crates with several modules outside of `crates/` and `adapters/`.
const OTHERS: [&str; 2] = ["conformance/crafter", "xtask"];

/// Prints the modules of all crates. Fails if there is a circle.
pub(crate) fn run(workplace: &Workplace) -> Result<()> {
    read(workplace, |line| println!("{line}"))
}

/// Fails if there is a circle.
pub(crate) fn check(workplace: &Workplace) -> Result<()> {
    read(workplace, |_| ())
}

fn read(workplace: &Workplace, show: impl Fn(&str)) -> Result<()> {
    let mut circles = Vec::new();
    let mut folders = crates::folders(&workplace.root);
    folders.extend(OTHERS.map(|folder| (folder.to_owned(), workplace.root.join(folder))));
    for (name, folder) in folders {
        let imports = Crate::read(&folder.join("src"))?.imports();
        show(&name);
        for (module, imported) in &imports {
            let imported: Vec<_> = imported.iter().map(|m| shown(m)).collect();
            show(&format!("    {}: {}", shown(module), imported.join(", ")));
        }
        let found = circles_of(&imports);
        circles.extend(found.iter().map(|circle| format!("{name}: {}", circle.join(", "))));
        let found = folders_of(&imports).into_iter().flat_map(|within| circles_of(&within));
        circles.extend(found.map(|circle| format!("{name}, folders: {}", circle.join(", "))));
    }
    match circles.is_empty() {
        true => Ok(()),
        false => Err(format!("modules that import each other:\n{}", circles.join("\n"))),
    }
}

fn shown(module: &str) -> &str {
    if module.is_empty() { "the root" } else { module }
}

/// The sources of a crate.
struct Crate {
    /// The code of each module, without comments and text.
    code: BTreeMap<Module, String>,
}

impl Crate {
    fn read(src: &Path) -> Result<Self> {
        let mut code = BTreeMap::new();
        read_folder(src, "", &mut code).map_err(|e| format!("{}: {e}", src.display()))?;
        Ok(Self { code })
    }

    fn imports(&self) -> Imports {
        let of = |(module, code): (&Module, &String)| {
            let found = paths(code).into_iter().filter_map(|path| self.resolve(module, &path, 0));
            (module.clone(), found.filter(|found| found != module).collect())
        };
        self.code.iter().map(of).collect()
    }

    /// The module that has the item of a path, as a module writes it; `None` for another crate's.
    fn resolve(&self, from: &str, path: &[String], depth: usize) -> Option<Module> {
        let mut at = from.to_owned();
        let mut rest = path;
        match rest.first().map(String::as_str)? {
            "crate" => (at, rest) = (Module::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    at =
                        at.rsplit_once("::").map_or(Module::new(), |(parent, _)| parent.to_owned());
                    rest = &rest[1..];
                }
            }
            first if self.code.contains_key(&below(&at, first)) => {}
            first => {
                // A name that the module imports.
                let mut through = self.re_exported(from, first).filter(|_| depth < 8)?;
                through.extend(path[1..].iter().cloned());
                return self.resolve(from, &through, depth + 1);
            }
        }
        while let Some(name) = rest.first() {
            let child = below(&at, name);
            if self.code.contains_key(&child) {
                (at, rest) = (child, &rest[1..]);
                continue;
            }
            // Chains of re-exports are short; circles of them do not compile.
            let through = self.re_exported(&at, name).filter(|_| depth < 8);
            return through.and_then(|path| self.resolve(&at, &path, depth + 1)).or(Some(at));
        }
        Some(at)
    }

    /// The path by which a module imports a name that it does not define.
    fn re_exported(&self, module: &str, name: &str) -> Option<Vec<String>> {
        let found = uses(&self.code[module]).into_iter().find(|found| found.name == name);
        found.map(|found| found.path)
    }
}

fn below(module: &str, name: &str) -> Module {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

fn read_folder(
    folder: &Path,
    module: &str,
    code: &mut BTreeMap<Module, String>,
) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            read_folder(&path, &below(module, &name), code)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = match name.as_str() {
                "lib" | "main" | "mod" => module.to_owned(),
                name => below(module, name),
            };
            code.insert(module, without_tests(&without_text(&fs::read_to_string(&path)?)));
        }
    }
    Ok(())
}

/// Code without the module of its tests, which stands last.
fn without_tests(code: &str) -> String {
    let attributes = ["#[cfg(test)]\nmod tests {", "#[cfg(all(test, unix))]\nmod tests {"];
    let at = attributes.iter().filter_map(|attribute| code.find(attribute)).min();
    code[..at.unwrap_or(code.len())].to_owned()
}

/// Code without comments, and with nothing between quotation marks.
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

/// The length of a string with its quotation marks.
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

/// All paths of a module's code: those of `use`, and others.
fn paths(code: &str) -> Vec<Vec<String>> {
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
        // A macro that is called by a path stands in the root, wherever it was written.
        if is_first && begin < at && !rest[end..].starts_with('!') {
            let names = path.split("::").filter(|name| !name.is_empty());
            found.push(names.map(str::to_owned).collect());
        }
        rest = &rest[end.max(at + 2)..];
    }
    found
}

/// What a `use` names.
#[derive(Clone)]
struct Use {
    path: Vec<String>,
    /// The name that it has in the module.
    name: String,
    is_public: bool,
}

/// Where the trees of `use` begin and end, and whether they are re-exports.
fn trees(code: &str) -> Vec<(usize, usize, bool)> {
    let tree = |(at, _): (usize, &str)| {
        let line = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        let is_public = line.starts_with("pub") && !line.contains(['{', ';']);
        let end = code[at..].find(';').map(|length| at + length)?;
        (line.is_empty() || is_public).then_some((at + 4, end, is_public))
    };
    code.match_indices("use ").filter_map(tree).collect()
}

fn uses(code: &str) -> Vec<Use> {
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

/// The paths of a tree: `a::{b, c as d}`.
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

/// The branches of a group, which may have groups themselves.
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

/// For each folder, the imports of what is in it: a folder counts as one module, with all that is below. The `mod.rs` of the
/// folder itself does not count, since it may import what is in it.
fn folders_of(imports: &Imports) -> Vec<Imports> {
    let folders = imports.keys().flat_map(|module| {
        module.match_indices("::").map(|(at, _)| module[..at].to_owned()).collect::<Vec<_>>()
    });
    let folders: BTreeSet<_> = folders.chain([Module::new()]).collect();
    let of = |folder: &Module| {
        let mut within = Imports::new();
        for (module, imported) in imports {
            let Some(child) = child_of(folder, module) else { continue };
            let others = imported.iter().filter_map(|other| child_of(folder, other));
            let others = others.filter(|other| *other != child).collect::<Vec<_>>();
            within.entry(child).or_default().extend(others);
        }
        within
    };
    folders.iter().map(of).collect()
}

/// The child of a folder that a module is, or is below.
fn child_of(folder: &str, module: &str) -> Option<Module> {
    let rest = match folder {
        "" => module,
        _ => module.strip_prefix(folder)?.strip_prefix("::")?,
    };
    let name = rest.split("::").next().filter(|name| !name.is_empty())?;
    Some(below(folder, name))
}

/// The groups of modules each of which leads to each other one.
fn circles_of(imports: &Imports) -> Vec<Vec<String>> {
    let reached = |from: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = next.pop() {
            for imported in imports.get(&module).into_iter().flatten() {
                if seen.insert(imported.clone()) {
                    next.push(imported.clone());
                }
            }
        }
        seen
    };
    let all: BTreeMap<&Module, BTreeSet<Module>> =
        imports.keys().map(|module| (module, reached(module))).collect();
    let in_circle = |module: &&Module| all[*module].contains(*module);
    let mut found = BTreeSet::new();
    for module in imports.keys().filter(in_circle) {
        let together = all[module].iter().filter(|other| all[*other].contains(module));
        found.insert(together.map(|m| shown(m).to_owned()).collect::<Vec<_>>());
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(sources: &[(&str, &str)]) -> Imports {
        let clean = |text: &str| without_tests(&without_text(text));
        let code = sources.iter().map(|(name, text)| ((*name).to_owned(), clean(text)));
        Crate { code: code.collect() }.imports()
    }

    fn list(names: &[&str]) -> BTreeSet<Module> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn imports_by_every_kind_of_path() {
        let found = imports(&[
            ("", "mod a;\nmod b;\npub use b::{Item, c::{self, Other as Third}};"),
            ("a", "use crate::{Item, Third, c};\nfn f() { crate::b::g(\"crate::a\") } // super::b"),
            ("b", "mod c;\nfn g() { c::h() }\nuse std::fmt;"),
            ("b::c", "use super::super::a::f;\n#[cfg(test)]\nmod tests { use crate::b::g; }"),
            ("d", "#[cfg(all(test, unix))]\nmod tests { use crate::a; }"),
        ]);
        assert_eq!(found["a"], list(&["b", "b::c"]));
        assert_eq!(found["b"], list(&["b::c"]));
        assert_eq!(found["b::c"], list(&["a"]));
        assert_eq!(found["d"], list(&[]));
        assert_eq!(found[""], list(&[]));
        assert_eq!(circles_of(&found), [["a", "b", "b::c"]]);
    }

    #[test]
    fn no_circle_where_imports_run_downwards() {
        let found = imports(&[("", "mod a;\nmod b;"), ("a", "use crate::b::B;"), ("b", "")]);
        assert_eq!(found["a"], list(&["b"]));
        assert!(circles_of(&found).is_empty());
    }

    #[test]
    fn circles_among_folders() {
        let found = imports(&[
            ("", "mod a;\nmod b;"),
            ("a", "mod c;\nmod d;\nuse c::e::f;"),
            ("a::c", "mod e;"),
            ("a::c::e", "use crate::a::d::g;"),
            ("a::c::h", ""),
            ("a::d", "use super::c::h;\nuse crate::b;"),
            ("b", "use crate::a::c::h;"),
        ]);
        assert!(circles_of(&found).is_empty());
        let circles: Vec<_> = folders_of(&found).iter().flat_map(circles_of).collect();
        assert_eq!(circles, [["a", "b"], ["a::c", "a::d"]]);
    }

    #[test]
    fn a_path_may_begin_with_an_imported_module() {
        let found = imports(&[
            ("", "mod a;\nmod b;"),
            ("a", "mod c;"),
            ("a::c", ""),
            ("b", "use crate::a;\nfn f() { a::c::g() }"),
        ]);
        assert_eq!(found["b"], list(&["a", "a::c"]));
    }

    #[test]
    fn imports_below_tests_in_a_file_of_their_own_are_read() {
        let found =
            imports(&[("", ""), ("a", "#[cfg(test)]\nmod tests;\nuse crate::b::B;"), ("b", "")]);
        assert_eq!(found["a"], list(&["b"]));
    }

    #[test]
    fn text_is_no_code() {
        let code = without_text("a(\"b\\\"c\", 'd', r#\"e\"f\"#); // g\n/* h */i");
        assert_eq!(code, "a(, 'd', r#); \ni");
    }
}
