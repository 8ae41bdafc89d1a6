//! The commands of each target.

use std::process::Command;

use super::table::{Outcome, State};
use super::targets::{CORE, NEED_THREADS, Options, PYTHON, Run, TARGETS, Target, Tests, Tools};
use crate::python::Venv;
use crate::steps::Steps;
use crate::{Result, Workplace, crates, debian, pins, process};

/// The target whose tests are part of `cargo xtask test --all`, because they run without an emulator.
const NATIVE: &str = "i686-unknown-linux-gnu";

/// The target without an operating system that `cargo xtask test --all` compiles.
const WASM: &str = "wasm32-unknown-unknown";

/// The target directory: its own, so that other tasks do not wait for it.
const DIRECTORY: &str = "platforms";

/// Runs the steps of all targets, or of some. Returns the results, sorted like the targets.
pub(super) fn all(steps: &mut Steps, workplace: &Workplace, options: &Options) -> Vec<Outcome> {
    let mut venv = Venv::of(workplace);
    let ready = steps.need(".venv", || {
        venv.ready()?;
        venv.install(&[pins::WASMTIME])
    });
    let only = &options.only;
    let is_tried = |target: &&Target| only.is_empty() || only.iter().any(|n| n == target.name);
    let mut outcomes = Vec::new();
    let needs_venv = || ready.ok_or("needs .venv, which failed".to_owned());
    let state = |made| if ready.is_some() { State::of(made) } else { State::NotTried };
    for target in TARGETS.iter().filter(is_tried) {
        let name = target.name;
        let layout = steps.run(&format!("{name}: the layout of dlpack.h"), || {
            needs_venv()?;
            compare_layout(workplace, &venv, target)
        });
        let layout = state(layout);
        if options.layout {
            outcomes.push(Outcome { target: name, layout, others: None });
            continue;
        }
        let compiled = steps.run(&format!("{name}: compile"), || compile(workplace, target));
        let ran = match &target.run {
            Run::Not(_) => State::NotTried,
            Run::With(tools) => state(steps.run(&format!("{name}: test"), || {
                needs_venv()?;
                test(workplace, &venv, name, tools, tools.tested)
            })),
        };
        outcomes.push(Outcome { target: name, layout, others: Some((State::of(compiled), ran)) });
    }
    outcomes
}

/// Runs the steps that are part of `cargo xtask test --all`: 32-bit tests that run natively, and a build without an
/// operating system.
pub(crate) fn cheap(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) {
    let target = |name| TARGETS.iter().find(move |target| target.name == name);
    if let Some(Target { name, run: Run::With(tools), .. }) = target(NATIVE) {
        steps.run("Rust tests: dlbridge-sys and dlbridge on 32 bits", || {
            test(workplace, venv, name, tools, &["dlbridge-sys", "dlbridge"])
        });
    }
    if let Some(target) = target(WASM) {
        steps.run("dlbridge on WebAssembly", || compile(workplace, target));
    }
}

/// Compiles the crates of a target with all features. PyO3 then takes the oldest Python of the stable ABI, not that of
/// this machine.
fn compile(workplace: &Workplace, target: &Target) -> Result<()> {
    add(workplace, target.name)?;
    if target.without_adapters.is_some() {
        // Dependencies of adapters compile C and assembly.
        install_compiler(workplace, target)?;
    }
    let mut check = cargo(workplace, "check", target.name);
    let core = target.crates.iter().flat_map(|crates| crates.iter()).map(|name| (*name).to_owned());
    let adapters = target.without_adapters.map(|without| adapters(workplace, without));
    for package in core.chain(adapters.into_iter().flatten()) {
        check.args(["--package", &package]);
    }
    process::run_for_hours(check.arg("--all-features").env("PYO3_CROSS", "1"))
}

/// Returns the adapters that do not need PyO3, except some.
fn adapters(workplace: &Workplace, without: &[&str]) -> Vec<String> {
    let folder = workplace.root.join("adapters");
    let all = crates::folders(&workplace.root).into_iter();
    let all = all.filter(|(_, path)| path.starts_with(&folder)).map(|(name, _)| name);
    all.filter(|name| !PYTHON.contains(&&**name) && !without.contains(&&**name)).collect()
}

/// Runs tests of a target.
fn test(
    workplace: &Workplace,
    venv: &Venv<'_>,
    name: &str,
    tools: &Tools,
    packages: &[&str],
) -> Result<()> {
    add(workplace, name)?;
    let program = tools.runner.split(' ').next().unwrap_or_default();
    debian::install(workplace, tools.packages, || {
        [tools.linker, program].iter().all(|tool| is_there(workplace, tool))
    })?;
    let mut test = cargo(workplace, "test", name);
    test.args(["--lib", "--tests"]);
    test.args(packages.iter().flat_map(|package| ["--package", package]));
    match tools.tests {
        Tests::All => _ = test.arg("--all-features"),
        Tests::FewFeatures => {
            test.args(["--features", "dlbridge/half,dlbridge/num-complex,dlbridge/memmap2"]);
        }
        Tests::OneThread => {
            test.args(["--features", "dlbridge/half,dlbridge/num-complex", "--"]);
            test.args(NEED_THREADS.iter().flat_map(|name| ["--skip", name]));
        }
    }
    set_tools(&mut test, workplace, venv, name, tools)?;
    process::run_for_hours(&mut test)
}

/// Returns Cargo for a target. Optimised a little, because an emulator runs slow code ten times slower.
fn cargo(workplace: &Workplace, command: &str, target: &str) -> Command {
    let mut cargo = workplace.cargo(&[command, "--target", target, "--target-dir"]);
    cargo.arg(workplace.target.join(DIRECTORY));
    if target != NATIVE {
        cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    }
    cargo
}

/// Sets the linker and the runner of a target, and what the runner needs.
fn set_tools(
    cargo: &mut Command,
    workplace: &Workplace,
    venv: &Venv<'_>,
    name: &str,
    tools: &Tools,
) -> Result<()> {
    let variable = |what| format!("CARGO_TARGET_{}_{what}", name.to_uppercase().replace('-', "_"));
    if !tools.linker.is_empty() {
        cargo.env(variable("LINKER"), tools.linker);
    }
    let runner = tools
        .runner
        .replace("{root}", &workplace.root.to_string_lossy())
        .replace("{python}", &venv.program("python").to_string_lossy());
    cargo.env(variable("RUNNER"), runner);
    if name.contains("windows") {
        let folder = workplace.target.join(DIRECTORY).join("wine");
        let libraries = folder.join("libraries");
        std::fs::create_dir_all(&libraries).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut library = workplace.command(tools.linker);
        library.args(["-shared", "-O1", "xtask/platforms/bcryptprimitives.c", "-ladvapi32", "-o"]);
        process::run(library.arg(libraries.join("bcryptprimitives.dll")))?;
        let libraries = libraries.to_string_lossy().replace('/', "\\");
        cargo.env("WINEPREFIX", folder.join("prefix")).env("WINEPATH", format!("Z:{libraries}"));
        cargo.env("WINEDEBUG", "-all");
    }
    Ok(())
}

/// Compares the layout of `dlpack.h` on a target with the crate's, by a C compiler of the target.
fn compare_layout(workplace: &Workplace, venv: &Venv<'_>, target: &Target) -> Result<()> {
    install_compiler(workplace, target)?;
    let mut test = workplace.cargo(&["test", "--package", CORE[0], "--test", "layout"]);
    test.env("DLPACK_INCLUDE", venv.dlpack_include()?).env("DLPACK_C_COMPILERS", target.c_compiler);
    process::run(test.args(["--", "--include-ignored"]))
}

/// Installs the C compiler of a target.
fn install_compiler(workplace: &Workplace, target: &Target) -> Result<()> {
    let program = target.c_compiler.split(' ').next().unwrap_or_default();
    debian::install(workplace, target.compiler_packages(), || is_there(workplace, program))
}

/// Adds a target's standard library to the current toolchain.
fn add(workplace: &Workplace, target: &str) -> Result<()> {
    let list = process::answer(workplace.command("rustup").args(["target", "list", "--installed"]));
    if list.is_some_and(|list| list.lines().any(|line| line == target)) {
        return Ok(());
    }
    process::run(workplace.command("rustup").args(["target", "add", target]))
}

/// Returns true if a program is installed. An empty name and the interpreter of `.venv` need no package.
fn is_there(workplace: &Workplace, program: &str) -> bool {
    let found = || workplace.command("sh").args(["-c", "command -v \"$0\"", program]).output();
    program.is_empty()
        || program.starts_with('{')
        || found().is_ok_and(|found| found.status.success())
}
