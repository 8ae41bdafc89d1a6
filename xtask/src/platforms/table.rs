//! The table of `docs/platforms.md`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::targets::{NOT_TRIED, Run, TARGETS, Target, Tests, Tools};
use crate::Result;

const PAGE: &str = "docs/platforms.md";
const HEADING: &str = "\
| target | layout of `dlpack.h` | crates compiled | tests run | how |
| --- | --- | --- | --- | --- |
";

/// The result of a target's steps.
pub(super) struct Outcome {
    pub(super) target: &'static str,
    pub(super) layout: State,
    /// The results of compiling and of the tests; `None` if only the layout was compared.
    pub(super) others: Option<(State, State)>,
}

/// The result of one step, as a cell of the table shows it.
#[derive(Clone, Copy)]
pub(super) enum State {
    Passed,
    Failed,
    NotTried,
}

impl State {
    /// Returns the state of a step that ran.
    pub(super) fn of(made: Option<()>) -> Self {
        if made.is_some() { Self::Passed } else { Self::Failed }
    }

    /// Returns the state, or the earlier one if the step was not tried.
    fn or(self, earlier: Self) -> Self {
        if matches!(self, Self::NotTried) { earlier } else { self }
    }

    /// Returns the cell of a step whose success has this text.
    fn cell(self, passed: &str) -> &str {
        match self {
            Self::Passed => passed,
            Self::Failed => "failed",
            Self::NotTried => "not tried",
        }
    }
}

/// Writes the rows of the tried targets, and keeps the other rows of the page.
pub(super) fn write(root: &Path, outcomes: &[Outcome]) -> Result<()> {
    let page = read(root)?;
    let rows = updated(&old_rows(&page)?, outcomes);
    fs::write(root.join(PAGE), with_rows(&page, &rows)?).map_err(|e| format!("{PAGE}: {e}"))
}

/// Checks that the page has one row for each present target, in their order, which a run could have written, and no
/// other row.
pub(crate) fn check(root: &Path) -> Result<()> {
    check_page(&read(root)?)
}

fn check_page(page: &str) -> Result<()> {
    let old = old_rows(page)?;
    let expected = updated(&old, &[]);
    let lines = |rows: &str| rows.lines().map(str::to_owned).collect::<Vec<_>>();
    if lines(&expected) == old {
        return Ok(());
    }
    Err(format!(
        "the table in {PAGE} has a row that no run writes with the present targets, or lacks one; it would be\n\n\
         {expected}\n`cargo xtask platforms` writes it"
    ))
}

fn read(root: &Path) -> Result<String> {
    fs::read_to_string(root.join(PAGE)).map_err(|e| format!("{PAGE}: {e}"))
}

/// Returns the rows of all targets: those of the outcomes, those of the page that a run could have written, or rows that
/// say that nothing was tried.
fn updated(old: &[String], outcomes: &[Outcome]) -> String {
    let mut rows = String::new();
    for target in TARGETS {
        let (layout, compiled, ran) =
            kept(old, target).unwrap_or((State::NotTried, State::NotTried, State::NotTried));
        let row = match outcomes.iter().find(|outcome| outcome.target == target.name) {
            Some(outcome) => {
                let (new_compiled, new_ran) = outcome.others.unwrap_or((compiled, ran));
                let layout = outcome.layout.or(layout);
                row(target, layout, new_compiled.or(compiled), new_ran.or(ran))
            }
            None => row(target, layout, compiled, ran),
        };
        let _ = writeln!(rows, "{row}");
    }
    for (part, reason) in NOT_TRIED {
        let _ = writeln!(rows, "| {part} | | not tried | not tried | {reason} |");
    }
    rows
}

/// Returns what the page's row says of a target, if a run could have written it.
fn kept(old: &[String], target: &Target) -> Option<(State, State, State)> {
    const STATES: [State; 3] = [State::Passed, State::Failed, State::NotTried];
    let pairs = STATES.iter().flat_map(|layout| STATES.map(|compiled| (*layout, compiled)));
    let mut all = pairs.flat_map(|(layout, compiled)| STATES.map(|ran| (layout, compiled, ran)));
    all.find(|(layout, compiled, ran)| old.contains(&row(target, *layout, *compiled, *ran)))
}

fn row(target: &Target, layout: State, compiled: State, ran: State) -> String {
    let crates: Vec<_> = target.crates.iter().flat_map(|crates| crates.iter()).copied().collect();
    let mut crates = listed(&crates);
    if let Some(without) = target.without_adapters {
        crates.push_str(", adapters");
        if !without.is_empty() {
            let _ = write!(crates, " except {}", listed(without));
        }
    }
    let (tests, how) = match &target.run {
        Run::Not(reason) => (State::NotTried.cell("").to_owned(), *reason),
        Run::With(tools) => (ran.cell(&tests(tools)).to_owned(), tools.shown),
    };
    let (layout, compiled) = (layout.cell("as in C"), compiled.cell(&crates));
    format!("| `{}` | {layout} | {compiled} | {tests} | {how} |", target.name)
}

/// Returns the names of crates without the project's.
fn listed(crates: &[&str]) -> String {
    let short = |name: &&str| name.trim_start_matches("dlbridge-").to_owned();
    crates.iter().map(short).collect::<Vec<_>>().join(", ")
}

fn tests(tools: &Tools) -> String {
    let crates = listed(tools.tested);
    match tools.tests {
        Tests::All => crates,
        Tests::FewFeatures => format!("{crates}; with few features"),
        Tests::OneThread => format!("{crates}; without threads, with few features"),
    }
}

/// Returns the rows of the page's table, which ends at the first empty line.
fn old_rows(page: &str) -> Result<Vec<String>> {
    let (_, rest) = split(page)?;
    Ok(rest.lines().take_while(|line| !line.trim().is_empty()).map(str::to_owned).collect())
}

fn split(page: &str) -> Result<(&str, &str)> {
    let found = page.split_once(HEADING);
    found.ok_or_else(|| format!("{PAGE} lacks a table that begins\n{HEADING}"))
}

/// Returns the page with these rows in its table.
fn with_rows(page: &str, rows: &str) -> Result<String> {
    let (before, rest) = split(page)?;
    let old: usize =
        rest.split_inclusive('\n').take_while(|line| line.trim() != "").map(str::len).sum();
    Ok(format!("{before}{HEADING}{rows}{}", &rest[old..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_the_page_has_every_target() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        check(root).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn row_of_a_failed_step_says_so() {
        let cells = |layout, compiled, ran| row(&TARGETS[0], layout, compiled, ran);
        let name = TARGETS[0].name;
        let (passed, failed, not_tried) = (State::Passed, State::Failed, State::NotTried);
        assert!(!cells(passed, passed, passed).contains("failed"));
        assert!(cells(passed, passed, failed).contains(" | failed | natively"));
        assert!(cells(passed, passed, not_tried).contains(" | not tried | natively"));
        let begin = format!("| `{name}` | as in C | failed | sys, ");
        assert!(cells(passed, failed, passed).starts_with(&begin));
        let begin = format!("| `{name}` | failed | sys, ");
        assert!(cells(failed, passed, passed).starts_with(&begin));
    }

    #[test]
    fn every_row_that_a_run_writes_is_accepted_and_kept() {
        let outcome = |target: &Target, layout, compiled, ran| Outcome {
            target: target.name,
            layout,
            others: Some((compiled, ran)),
        };
        let outcomes = [
            outcome(&TARGETS[0], State::Passed, State::Passed, State::Failed),
            outcome(&TARGETS[1], State::Failed, State::Failed, State::NotTried),
            outcome(&TARGETS[2], State::NotTried, State::Failed, State::Passed),
        ];
        let page = |rows: &str| format!("text\n\n{HEADING}{rows}\nmore\n");
        let rows = updated(&[], &outcomes);
        check_page(&page(&rows)).unwrap();
        let old: Vec<_> = rows.lines().map(str::to_owned).collect();
        assert_eq!(updated(&old, &[]), rows);
        let passed = outcome(&TARGETS[0], State::Passed, State::Passed, State::Passed);
        let later = updated(&old, &[passed]);
        assert_eq!(later.lines().skip(1).collect::<Vec<_>>(), old[1..]);
        let layout = Outcome { target: TARGETS[0].name, layout: State::Failed, others: None };
        let failed = old[0].replace("| as in C |", "| failed |");
        assert_eq!(updated(&old, &[layout]).lines().next(), Some(failed.as_str()));
        // A step that was not tried keeps the result of an earlier run.
        let none = outcome(&TARGETS[0], State::NotTried, State::NotTried, State::NotTried);
        assert_eq!(updated(&old, &[none]), rows);
        for wrong in [
            rows.replacen("| failed |", "| some failed |", 1),
            format!("{rows}| `vax-dec-vms` | not tried | not tried | not tried | none |\n"),
            rows.lines().skip(1).map(|line| format!("{line}\n")).collect(),
            format!("{}\n{rows}", old[0]),
        ] {
            assert!(check_page(&page(&wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rows_replace_the_old_ones() {
        let page = format!("text\n\n{HEADING}| old |\n\nmore\n");
        assert_eq!(
            with_rows(&page, "| new |\n").unwrap(),
            format!("text\n\n{HEADING}| new |\n\nmore\n")
        );
        assert!(with_rows("text", "").is_err());
    }
}
