//! `cargo xtask layers`: prints the modules of each crate in the repository with their imports, and the import circles
//! among modules and among folders.
//!
//! It reads paths as text: those of `use`, and those in code that begin with `crate`, `super`, `self` or a module
//! below. A re-export (`pub use`) does not count as an import, and a re-exported name leads to the module that defines
//! the item. It ignores test modules in a file, code from macros, and methods, which lack a path.

mod circles;
mod code;
mod modules;
mod packages;

use circles::{circles_of, folders_of};
use modules::{Crate, shown};

use crate::{Result, Workplace};

/// Prints the modules of all crates. Fails if modules or folders import each other in a circle.
pub(crate) fn run(workplace: &Workplace) -> Result<()> {
    read(workplace, |line| println!("{line}"))
}

/// Fails if modules or folders import each other in a circle.
pub(crate) fn check(workplace: &Workplace) -> Result<()> {
    read(workplace, |_| ())
}

fn read(workplace: &Workplace, show: impl Fn(&str)) -> Result<()> {
    let root = &workplace.root;
    let folders = packages::crates(root).map_err(|e| format!("{}: {e}", root.display()))?;
    let mut circles = Vec::new();
    for folder in folders {
        let imports = Crate::read(&folder)?.imports();
        let name = folder.strip_prefix(root).unwrap_or(&folder).display();
        if imports.len() == 1 {
            show(&format!("{name}: one module"));
            continue;
        }
        show(&format!("{name}:"));
        for (module, imported) in &imports {
            let imported: Vec<_> = imported.iter().map(|m| shown(m)).collect();
            let imported = if imported.is_empty() { "nothing".into() } else { imported.join(", ") };
            show(&format!("    {} imports {imported}", shown(module)));
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::modules::{Imports, Module};
    use super::*;

    fn imports(sources: &[(&str, &str)]) -> Imports {
        let code = sources.iter().map(|(name, text)| ((*name).to_owned(), code::of(text)));
        Crate { code: code.collect() }.imports()
    }

    fn list(names: &[&str]) -> BTreeSet<Module> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn imports_by_every_kind_of_path_are_found() {
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
    fn imports_in_one_direction_are_not_a_circle() {
        let found = imports(&[("", "mod a;\nmod b;"), ("a", "use crate::b::B;"), ("b", "")]);
        assert_eq!(found["a"], list(&["b"]));
        assert!(circles_of(&found).is_empty());
    }

    #[test]
    fn circles_among_folders_are_found() {
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
    fn path_that_begins_with_an_imported_module_is_resolved() {
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
}
