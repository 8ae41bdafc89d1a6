//! The examples in C: linked with a Rust static library, run where mistakes with memory are seen.

use std::path::Path;

use crate::steps::{Finished, Steps};
use crate::{Result, Workplace, process};

/// What a Rust static library needs of the system.
const SYSTEM_LIBRARIES: &[&str] = &["-lpthread", "-ldl", "-lm"];

/// Builds and runs each example that is a C program.
pub(crate) fn run(steps: &mut Steps, workplace: &Workplace, names: &[String], include: &Path) {
    for name in names {
        let example = Example { workplace, name, include };
        steps.run(&format!("{name}: AddressSanitizer"), || example.with_address_sanitizer());
        steps.try_run(&format!("{name}: valgrind"), || example.with_valgrind());
    }
}

struct Example<'a> {
    workplace: &'a Workplace,
    /// The path from the root.
    name: &'a str,
    include: &'a Path,
}

impl Example<'_> {
    fn with_address_sanitizer(&self) -> Result<()> {
        let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        let program = self.build("asan", &flags)?;
        let mut run = self.workplace.command(program);
        process::run(run.env("ASAN_OPTIONS", "detect_leaks=1"))
    }

    fn with_valgrind(&self) -> Result<Finished> {
        if !process::succeeds(self.workplace.command("valgrind").arg("--version")) {
            return Ok(Finished::Notice("valgrind is not installed".into()));
        }
        let program = self.build("plain", &[])?;
        let mut valgrind = self.workplace.command("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=1", "--leak-check=full"]);
        valgrind.args(["--errors-for-leak-kinds=definite,indirect,possible", "--"]);
        process::run(valgrind.arg(program))?;
        Ok(Finished::Passed)
    }

    /// Compiles and links the program; returns where it is.
    fn build(&self, variant: &str, flags: &[&str]) -> Result<std::path::PathBuf> {
        let package = self.name.rsplit('/').next().unwrap_or_default();
        process::run(&mut self.workplace.cargo(&["build", "--package", package]))?;
        let library = self.workplace.target.join("debug").join(format!("lib{package}.a"));
        let program = self.workplace.target.join(format!("{package}-{variant}"));
        let mut cc = self.workplace.command(std::env::var_os("CC").unwrap_or("cc".into()));
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g"]).args(flags);
        cc.arg("-I").arg(self.include).arg(format!("{}/main.c", self.name));
        process::run(cc.arg(library).args(SYSTEM_LIBRARIES).arg("-o").arg(&program))?;
        Ok(program)
    }
}
