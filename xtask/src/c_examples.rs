//! Runs the examples in C by the commands of their README, under AddressSanitizer, and under valgrind.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::python::Venv;
use crate::steps::{Finished, Steps};
use crate::{Result, Workplace, debian, process};

/// The file that marks an example as one in C. Its directory has the name of its package, a static library.
pub(crate) const MAIN: &str = "main.c";

const WARNINGS: &[&str] = &["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"];

/// The libraries that the README links beside the static library.
const SYSTEM_LIBRARIES: &[&str] = &["-lpthread", "-ldl", "-lm"];

/// Memory errors and undefined behaviour; leaks too, on Linux.
const SANITIZE: &[&str] = &["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

const VALGRIND: &[&str] = &[
    "--quiet",
    "--error-exitcode=1",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite,indirect,possible",
];

/// The steps for one example, `examples/name`.
pub(crate) fn test(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>, example: &str) {
    let example = CExample { workplace, venv, directory: example };
    let name = example.directory;
    steps.run(name, || example.as_in_the_readme());
    steps.try_run(&format!("{name}: AddressSanitizer"), || example.under_address_sanitizer());
    steps.try_run(&format!("{name}: valgrind"), || example.under_valgrind());
}

struct CExample<'a> {
    workplace: &'a Workplace,
    venv: &'a Venv<'a>,
    /// The path from the root.
    directory: &'a str,
}

impl CExample<'_> {
    /// The commands of the README, in the root, with the pinned header.
    fn as_in_the_readme(&self) -> Result<()> {
        let readme = self.workplace.root.join(self.directory).join("README.md");
        let readme = fs::read_to_string(&readme).map_err(|e| format!("{readme:?}: {e}"))?;
        let commands = commands(&readme);
        if commands.is_empty() {
            return Err(format!("the README of {} lacks commands", self.directory));
        }
        for command in commands {
            let mut shell = self.workplace.command("sh");
            shell.args(["-c", command]).env("DLPACK_INCLUDE", self.venv.dlpack_include()?);
            // The README names Cargo's default directory.
            process::run(shell.env("CARGO_TARGET_DIR", "target"))?;
        }
        Ok(())
    }

    fn under_address_sanitizer(&self) -> Result<Finished> {
        if !has_sanitizers(self.workplace)? {
            return Ok(Finished::Notice(
                "the C compiler lacks AddressSanitizer; for gcc, install the package libasan"
                    .into(),
            ));
        }
        let mut program = self.workplace.command(self.compile("asan", SANITIZE)?);
        if cfg!(target_os = "linux") {
            program.env("ASAN_OPTIONS", "detect_leaks=1");
        }
        process::run(&mut program)?;
        Ok(Finished::Passed)
    }

    fn under_valgrind(&self) -> Result<Finished> {
        let program = self.compile("plain", &["-g"])?;
        let unchecked = "the memory accesses of the Rust side were not checked";
        debian::with_valgrind(self.workplace, unchecked, || {
            process::run(self.workplace.command("valgrind").args(VALGRIND).arg(program))
        })
    }

    /// Builds the library and the program, with all warnings and more options.
    fn compile(&self, kind: &str, options: &[&str]) -> Result<PathBuf> {
        let package = Path::new(self.directory).file_name().unwrap_or_default();
        let package = package.to_string_lossy();
        process::run(&mut self.workplace.cargo(&["build", "--package", &package]))?;
        let library = self.workplace.target.join("debug").join(format!("lib{package}.a"));
        let program = build_directory(self.workplace)?.join(format!("{package}.{kind}"));
        let mut compile = c_compiler(self.workplace);
        compile.args(WARNINGS).args(options).arg("-I").arg(self.venv.dlpack_include()?);
        compile.arg(format!("{}/{MAIN}", self.directory)).arg(library).args(SYSTEM_LIBRARIES);
        process::run(compile.arg("-o").arg(&program))?;
        Ok(program)
    }
}

/// Returns `CC`, which may have arguments, or `cc`.
pub(crate) fn c_compiler(workplace: &Workplace) -> Command {
    let given = env::var("CC").unwrap_or_default();
    let mut words = given.split_whitespace();
    let mut compiler = workplace.command(words.next().unwrap_or("cc"));
    compiler.args(words);
    compiler
}

/// Returns true if programs can be linked with the sanitizers, whose libraries may be missing. Fails without
/// a compiler.
fn has_sanitizers(workplace: &Workplace) -> Result<bool> {
    let source = build_directory(workplace)?.join("empty.c");
    fs::write(&source, "int main(void) { return 0; }\n").map_err(|e| format!("{source:?}: {e}"))?;
    let links = |options: &[&str]| {
        let mut compile = c_compiler(workplace);
        compile.args(options).arg(&source).arg("-o").arg(source.with_extension("program"));
        process::succeeds(&mut compile)
    };
    if links(SANITIZE) {
        return Ok(true);
    }
    if links(&[]) {
        return Ok(false);
    }
    Err("no C compiler was found; install gcc or clang, or set CC".into())
}

fn build_directory(workplace: &Workplace) -> Result<PathBuf> {
    let directory = workplace.target.join("c_examples");
    fs::create_dir_all(&directory).map_err(|e| format!("{directory:?}: {e}"))?;
    Ok(directory)
}

/// Returns the lines that begin with `$` in the `console` blocks of a README.
fn commands(readme: &str) -> Vec<&str> {
    let blocks = readme.split("```console\n").skip(1);
    let lines = blocks.flat_map(|block| block.lines().take_while(|line| *line != "```"));
    lines.filter_map(|line| line.strip_prefix("$ ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_from_console_blocks() {
        let readme = "Text\n```sh\nno\n```\n```console\n$ one 1\noutput\n$ two\n```\n$ text\n\
                      ```console\n$ three\n```\n";
        assert_eq!(commands(readme), ["one 1", "two", "three"]);
    }
}
