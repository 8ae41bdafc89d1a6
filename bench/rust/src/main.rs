//! Measures dlbridge and its peers in Rust. `bench/run.py` runs it.
//!
//! | | |
//! | --- | --- |
//! | `rows` | the measured code, one file per library |
//! | `measure` | the way to measure, and the counting allocator |

mod measure;
mod rows;

use std::env;
use std::process::ExitCode;

use measure::{Counting, Plan};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const USAGE: &str = "\
rust-benches measure [--quick]          nanoseconds and allocations of each row, as JSON
rust-benches rows                       the names of the rows, as JSON
rust-benches repeat ROW N [ROW N ...]   runs a row N times, between marks for callgrind";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let quick = arguments.last() == Some(&"--quick");
    let done = match arguments[..] {
        ["measure"] | ["measure", "--quick"] => {
            print_costs(quick);
            Ok(())
        }
        ["rows"] => {
            let names: Vec<&str> = rows::all().iter().map(|row| row.name).collect();
            println!("{names:?}");
            Ok(())
        }
        ["repeat", ref pairs @ ..] => repeat(pairs),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print_costs(quick: bool) {
    let rows = rows::all();
    let costs = measure::measure(&rows, &Plan::new(quick));
    let lines: Vec<String> = rows
        .iter()
        .zip(&costs)
        .map(|(row, cost)| {
            let (name, ns, blocks) = (row.name, cost.nanoseconds, cost.allocations);
            format!(r#""{name}": {{"ns": {ns:.3}, "allocations": {blocks}}}"#)
        })
        .collect();
    println!("{{{}}}", lines.join(", "));
}

/// Runs each row N times, with a mark before the first row and after each row.
fn repeat(pairs: &[&str]) -> Result<(), String> {
    let (pairs, []) = pairs.as_chunks::<2>() else { return Err(USAGE.to_owned()) };
    let mut todo = Vec::new();
    for [name, times] in pairs {
        let row = rows::named(name).ok_or_else(|| format!("unknown row {name}"))?;
        let times: u32 = times.parse().map_err(|_| format!("{times} is not a number"))?;
        todo.push((row, times));
    }
    mark();
    for (row, times) in todo {
        for _ in 0..times {
            (row.run)();
        }
        mark();
    }
    Ok(())
}

/// Makes callgrind with `--dump-before=getppid` write its counts and start again.
fn mark() {
    let _ = std::os::unix::process::parent_id();
}
