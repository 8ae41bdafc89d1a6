//! `cargo xtask platforms`: compares the layout of `dlpack.h` and compiles the crates for every target that can be tried on
//! Linux, runs the tests of the core with an emulator, and writes the table of `docs/platforms.md` from the results.
//!
//! | | |
//! | --- | --- |
//! | `targets` | the targets, their tools and their tests |
//! | `steps` | the commands of each target |
//! | `table` | the table |

mod steps;
mod table;
mod targets;

use crate::steps::{Ended, Steps};
use crate::{Result, Workplace};

pub(crate) use steps::cheap;
pub(crate) use table::check;
pub(crate) use targets::Options;

const EXPECTED: &str =
    "hours on two cores: about 500 s of CPU to compile for a target with adapters";

/// Runs the steps of all targets, or of some, and writes their rows of the table. Returns true if none failed.
pub(crate) fn run(workplace: &Workplace, options: &Options) -> Result<bool> {
    if let Some(unknown) =
        options.only.iter().find(|name| !targets::TARGETS.iter().any(|t| t.name == **name))
    {
        let known: Vec<_> = targets::TARGETS.iter().map(|target| target.name).collect();
        return Err(format!("unknown target `{unknown}`; known: {}", known.join(", ")));
    }
    let (kind, expected) = if options.layout {
        ("platforms-layout", "a few minutes, most of them for Debian's packages")
    } else {
        ("platforms", EXPECTED)
    };
    let mut list =
        Steps::counted(workplace, kind, expected, |list| _ = steps::all(list, workplace, options));
    let results = steps::all(&mut list, workplace, options);
    table::write(&workplace.root, &results)?;
    Ok(list.summary() == Ended::Passed)
}
