//! The modules of a crate, and the modules that they import from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::code;
use crate::Result;

/// A module by its path: `protocol::arrow`; empty for the root of the crate.
pub(super) type Module = String;

/// The imports of each module.
pub(super) type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Returns the name of a module in messages.
pub(super) fn shown(module: &str) -> &str {
    if module.is_empty() { "the root" } else { module }
}

/// The sources of a crate.
pub(super) struct Crate {
    /// The code of each module, without comments and text.
    pub(super) code: BTreeMap<Module, String>,
}

impl Crate {
    pub(super) fn read(src: &Path) -> Result<Self> {
        let mut code = BTreeMap::new();
        read_folder(src, "", &mut code).map_err(|e| format!("{}: {e}", src.display()))?;
        Ok(Self { code })
    }

    pub(super) fn imports(&self) -> Imports {
        let of = |(module, code): (&Module, &String)| {
            let found =
                code::paths(code).into_iter().filter_map(|path| self.resolve(module, &path, 0));
            (module.clone(), found.filter(|found| found != module).collect())
        };
        self.code.iter().map(of).collect()
    }

    /// Returns the module that defines the item of a path in `from`, or `None` for an item of another crate.
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
            // Chains of re-exports are short, and circles of them do not compile.
            let through = self.re_exported(&at, name).filter(|_| depth < 8);
            return through.and_then(|path| self.resolve(&at, &path, depth + 1)).or(Some(at));
        }
        Some(at)
    }

    /// Returns the path that a module imports a name from, if it does not define the name.
    fn re_exported(&self, module: &str, name: &str) -> Option<Vec<String>> {
        let found = code::uses(&self.code[module]).into_iter().find(|found| found.name == name);
        found.map(|found| found.path)
    }
}

pub(super) fn below(module: &str, name: &str) -> Module {
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
            // The programs of a package are crates of their own.
            if module.is_empty() && name == "bin" {
                continue;
            }
            read_folder(&path, &below(module, &name), code)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = match name.as_str() {
                "lib" | "main" | "mod" => module.to_owned(),
                name => below(module, name),
            };
            code.insert(module, code::of(&fs::read_to_string(&path)?));
        }
    }
    Ok(())
}
