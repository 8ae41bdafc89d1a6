//! Circles among modules and among folders.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Imports, Module, below, shown};

/// Returns the imports among the items of each folder. A folder in it counts as one module with everything below. The
/// `mod.rs` of the folder itself does not count, because it may import from the folder.
pub(super) fn folders_of(imports: &Imports) -> Vec<Imports> {
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

/// Returns the child of a folder that is a module, or contains it.
fn child_of(folder: &str, module: &str) -> Option<Module> {
    let rest = match folder {
        "" => module,
        _ => module.strip_prefix(folder)?.strip_prefix("::")?,
    };
    let name = rest.split("::").next().filter(|name| !name.is_empty())?;
    Some(below(folder, name))
}

/// Returns the groups of modules that all import each other, directly or through others.
pub(super) fn circles_of(imports: &Imports) -> Vec<Vec<String>> {
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
