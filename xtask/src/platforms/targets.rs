//! The targets that are tried, and how.

/// The crates of the core, which need no Python.
pub(super) const CORE: &[&str] =
    &["dlbridge-sys", "dlbridge", "dlbridge-borrow", "dlbridge-fork", "dlbridge-files"];

/// The drivers of GPUs, which need shared libraries that a program loads.
pub(super) const MORE: &[&str] = &["dlbridge-gpu"];

/// The crates that need PyO3, which compiles for a target without a Python of that target: `dlbridge-python` selects the
/// stable ABI.
pub(super) const PYTHON: &[&str] =
    &["dlbridge-pyo3", "dlbridge-python", "dlbridge-numpy", "dlbridge-ops", "dlbridge-crafter"];

/// The crate whose build asserts the layout of `dlpack.h`.
const LAYOUT: &[&str] = &["dlbridge-sys"];

/// The crates whose tests run with qemu-user, which does not always survive a fork beside threads.
const EMULATED: &[&str] = &["dlbridge-sys", "dlbridge", "dlbridge-borrow", "dlbridge-files"];

/// The crates whose tests run with Wine: those of the others were not tried there.
const WITH_WINE: &[&str] = &["dlbridge-sys", "dlbridge", "dlbridge-borrow"];

/// The options of the command line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// The names of the targets; all if empty.
    pub(crate) only: Vec<String>,
    /// Only compare the layout of `dlpack.h`.
    pub(crate) layout: bool,
}

/// A target of rustc.
pub(super) struct Target {
    pub(super) name: &'static str,
    /// The C compiler that checks the layout of `dlpack.h`: clang, or the linker of the tools.
    pub(super) c_compiler: &'static str,
    /// The crates that are compiled, without the adapters.
    pub(super) crates: &'static [&'static [&'static str]],
    /// The adapters that are not compiled with them; `None` if all are not.
    pub(super) without_adapters: Option<&'static [&'static str]>,
    pub(super) run: Run,
}

impl Target {
    /// Returns the packages of Debian with the C compiler.
    pub(super) fn compiler_packages(&self) -> &'static [&'static str] {
        match &self.run {
            Run::With(tools) if tools.linker == self.c_compiler => tools.packages,
            _ => &["clang"],
        }
    }
}

/// How the tests of a target run.
pub(super) enum Run {
    /// They are not tried, for this reason.
    Not(&'static str),
    /// They are linked and run with these tools.
    With(Tools),
}

/// The tools that link and run the programs of a target.
pub(super) struct Tools {
    /// The tool as the table names it.
    pub(super) shown: &'static str,
    pub(super) packages: &'static [&'static str],
    /// The compiler that links; rustc's own linker if empty.
    pub(super) linker: &'static str,
    /// The command before the program. `{root}` is the repository, `{python}` an interpreter with the package wasmtime.
    pub(super) runner: &'static str,
    /// The crates whose tests run.
    pub(super) tested: &'static [&'static str],
    pub(super) tests: Tests,
}

/// The unit and integration tests of a crate that run.
#[derive(Clone, Copy)]
pub(super) enum Tests {
    /// All, with all features.
    All,
    /// All, with few features of `dlbridge`.
    FewFeatures,
    /// Those that need neither threads nor unwinding, with few features of `dlbridge`.
    OneThread,
}

/// The tests of `dlbridge` that start a thread or catch a panic, which WASI and its target do not have.
pub(super) const NEED_THREADS: &[&str] = &[
    "chains::",
    "threads::",
    "export::deleter_on_another_thread_drops_the_owner",
    "owners::panic_of_an_owners_drop_does_not_leave_the_deleter",
    "shared::exactly_one_of_the_last_two_threads_gets_the_tensor_or_none",
    "shared::handles_of_many_threads_end_with_one_drop",
    "shared::shared_tensor_is_an_owner_that_drops_in_a_chain",
    "tensor_ref::borrowed_tensors_cross_threads",
    "tensor_ref::raw_axes_shorter_than_reported_panic",
    "every_path_allocates_what_it_needs_and_frees_it",
];

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "i686-unknown-linux-gnu",
        c_compiler: "i686-linux-gnu-gcc",
        crates: &[CORE, MORE, PYTHON],
        without_adapters: Some(&["dlbridge-vulkan"]),
        run: Run::With(Tools {
            shown: "natively, on a 64-bit kernel",
            packages: &["gcc-i686-linux-gnu", "libc6-dev-i386-cross"],
            linker: "i686-linux-gnu-gcc",
            runner: "/usr/i686-linux-gnu/lib/ld-linux.so.2 --library-path /usr/i686-linux-gnu/lib",
            tested: CORE,
            tests: Tests::All,
        }),
    },
    Target {
        name: "aarch64-unknown-linux-gnu",
        c_compiler: "aarch64-linux-gnu-gcc",
        crates: &[CORE, MORE, PYTHON],
        without_adapters: Some(&[]),
        run: Run::With(Tools {
            shown: "qemu-user",
            packages: &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user"],
            linker: "aarch64-linux-gnu-gcc",
            runner: "qemu-aarch64 -L /usr/aarch64-linux-gnu",
            tested: EMULATED,
            tests: Tests::All,
        }),
    },
    Target {
        name: "riscv64gc-unknown-linux-gnu",
        c_compiler: "riscv64-linux-gnu-gcc",
        crates: &[CORE, MORE, PYTHON],
        without_adapters: Some(&[]),
        run: Run::With(Tools {
            shown: "qemu-user",
            packages: &["gcc-riscv64-linux-gnu", "libc6-dev-riscv64-cross", "qemu-user"],
            linker: "riscv64-linux-gnu-gcc",
            runner: "qemu-riscv64 -L /usr/riscv64-linux-gnu",
            tested: EMULATED,
            tests: Tests::All,
        }),
    },
    Target {
        name: "s390x-unknown-linux-gnu",
        c_compiler: "s390x-linux-gnu-gcc",
        crates: &[CORE],
        without_adapters: None,
        run: Run::With(Tools {
            shown: "qemu-user, big-endian",
            packages: &["gcc-s390x-linux-gnu", "libc6-dev-s390x-cross", "qemu-user"],
            linker: "s390x-linux-gnu-gcc",
            runner: "qemu-s390x -L /usr/s390x-linux-gnu",
            tested: EMULATED,
            tests: Tests::All,
        }),
    },
    Target {
        name: "x86_64-pc-windows-gnu",
        c_compiler: "x86_64-w64-mingw32-gcc",
        crates: &[CORE, MORE, PYTHON],
        without_adapters: Some(&[]),
        run: Run::With(Tools {
            shown: "Wine",
            packages: &["gcc-mingw-w64-x86-64", "wine64"],
            linker: "x86_64-w64-mingw32-gcc",
            runner: "/usr/lib/wine/wine64",
            tested: WITH_WINE,
            tests: Tests::FewFeatures,
        }),
    },
    Target {
        name: "wasm32-wasip1",
        c_compiler: "clang --target=wasm32-wasi",
        crates: &[CORE],
        without_adapters: None,
        run: Run::With(Tools {
            shown: "wasmtime",
            packages: &[],
            linker: "",
            runner: "{python} {root}/xtask/platforms/run_wasi.py",
            tested: &["dlbridge-sys", "dlbridge"],
            tests: Tests::OneThread,
        }),
    },
    Target {
        name: "wasm32-unknown-unknown",
        c_compiler: "clang --target=wasm32",
        crates: &[CORE],
        without_adapters: None,
        run: Run::Not("a test harness needs output, which the target lacks"),
    },
    Target {
        name: "wasm32-unknown-emscripten",
        c_compiler: "clang --target=wasm32-unknown-emscripten",
        crates: &[CORE],
        without_adapters: None,
        run: Run::Not("needs the Emscripten compiler to link"),
    },
    Target {
        name: "aarch64-apple-darwin",
        c_compiler: "clang --target=aarch64-apple-darwin",
        crates: &[CORE, MORE, PYTHON],
        without_adapters: Some(&["dlbridge-polars"]),
        run: Run::Not("needs a Mac"),
    },
    Target {
        name: "x86_64-apple-darwin",
        c_compiler: "clang --target=x86_64-apple-darwin",
        crates: &[CORE, MORE],
        without_adapters: None,
        run: Run::Not("needs a Mac"),
    },
    Target {
        name: "x86_64-pc-windows-msvc",
        c_compiler: "clang --target=x86_64-pc-windows-msvc",
        crates: &[CORE, MORE],
        without_adapters: None,
        run: Run::Not("needs Microsoft's linker"),
    },
    Target {
        name: "armv7-unknown-linux-gnueabihf",
        c_compiler: "clang --target=armv7-linux-gnueabihf",
        crates: &[CORE, MORE],
        without_adapters: None,
        run: Run::Not("its tests were not tried with qemu-user"),
    },
    Target {
        name: "i686-pc-windows-msvc",
        c_compiler: "clang --target=i686-pc-windows-msvc",
        crates: &[LAYOUT],
        without_adapters: None,
        run: Run::Not("needs Microsoft's linker"),
    },
    Target {
        name: "aarch64-linux-android",
        c_compiler: "clang --target=aarch64-linux-android",
        crates: &[LAYOUT],
        without_adapters: None,
        run: Run::Not("needs the Android NDK to link"),
    },
];

/// Parts that are not tried, and the reason.
pub(super) const NOT_TRIED: &[(&str, &str)] = &[
    ("`dlbridge-vulkan` on 32 bits", "a buffer of Vulkan has 64 bits, which a pointer lacks"),
    ("`dlbridge-polars` on macOS", "a dependency needs Apple's assembler"),
    ("a Python wheel for Pyodide", "needs Emscripten; [what it needs](#a-wheel-for-pyodide)"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_of_each_target_is_clang_or_in_its_own_packages() {
        for target in TARGETS {
            let is_linker = match &target.run {
                Run::With(tools) => tools.linker == target.c_compiler,
                Run::Not(_) => false,
            };
            let is_clang = target.c_compiler.starts_with("clang --target=");
            assert!(is_clang != is_linker, "{}: {}", target.name, target.c_compiler);
            assert_eq!(target.compiler_packages() == ["clang"], is_clang, "{}", target.name);
        }
    }
}
