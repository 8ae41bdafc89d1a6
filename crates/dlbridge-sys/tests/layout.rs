//! Compares the layouts that the crate asserts with those of the real `dlpack.h` on several targets.
//!
//! `DLPACK_C_COMPILERS` has C compilers with their arguments, separated by semicolons, such as
//! `cc;clang --target=wasm32`; the default is `cc`. They only check assertions, so they need neither a linker nor the
//! target's own headers. `DLPACK_INCLUDE` names the directory that holds `dlpack/dlpack.h`.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

#[path = "../src/layout.rs"]
mod layout;

/// Selects one of three numbers as the crate does. A member's alignment is that of its type in a struct, which some
/// compilers' `_Alignof` does not return.
const PRELUDE: &str = "\
#include <stddef.h>
#include <stdint.h>
#include <dlpack/dlpack.h>
struct Word { char before; uint64_t word; };
#define SELECT(wide, narrow, unaligned) \\
    (sizeof(void*) == 8 ? (wide) : offsetof(struct Word, word) == 8 ? (narrow) : (unaligned))
";

/// Returns a C program with an assertion for each number.
fn assertions() -> String {
    let mut text = PRELUDE.to_owned();
    let mut is = |expression: String, numbers: [usize; 3]| {
        let [wide, narrow, unaligned] = numbers;
        let selected = format!("SELECT({wide}, {narrow}, {unaligned})");
        writeln!(text, "_Static_assert({expression} == {selected}, \"{expression}\");").unwrap();
    };
    macro_rules! each {
        ($($struct:ident {
            size $s0:literal $s1:literal $s2:literal, align $a0:literal $a1:literal $a2:literal,
            $($field:ident $f0:literal $f1:literal $f2:literal),*
        })*) => {$(
            let name = stringify!($struct);
            is(format!("sizeof({name})"), [$s0, $s1, $s2]);
            is(format!("_Alignof({name})"), [$a0, $a1, $a2]);
            $(is(format!("offsetof({name}, {})", stringify!($field)), [$f0, $f1, $f2]);)*
        )*};
    }
    layout::layouts!(each);
    text
}

/// Returns the messages of a compiler that refuses a program.
fn refused(compiler: &str, file: &str, text: &str) -> Option<String> {
    let include = env::var_os("DLPACK_INCLUDE").expect(
        "DLPACK_INCLUDE is not set; it must name the directory that holds dlpack/dlpack.h \
         (cargo xtask test sets it)",
    );
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    fs::write(&source, text).expect("the C source is written");
    let mut words = compiler.split_whitespace();
    let output = Command::new(words.next().expect("the compiler has a name"))
        .args(words)
        .args(["-std=c11", "-ffreestanding", "-fsyntax-only", "-I"])
        .args([Path::new(&include), &source])
        .output()
        .unwrap_or_else(|e| panic!("{compiler} does not start: {e}"));
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then_some(messages)
}

fn compilers() -> Vec<String> {
    let listed = env::var("DLPACK_C_COMPILERS").unwrap_or("cc".into());
    listed.split(';').map(|compiler| compiler.trim().to_owned()).collect()
}

#[test]
#[ignore = "needs dlpack.h: run cargo xtask ci, or set DLPACK_INCLUDE and pass --ignored"]
fn layout_on_each_target_is_that_of_the_header() {
    let text = assertions();
    for compiler in compilers() {
        let messages = refused(&compiler, "layout.c", &text);
        assert!(messages.is_none(), "{compiler}:\n{}", messages.unwrap_or_default());
    }
}

/// Detects a compiler that does not check the assertions.
#[test]
#[ignore = "needs dlpack.h: run cargo xtask ci, or set DLPACK_INCLUDE and pass --ignored"]
fn wrong_layout_is_refused_on_each_target() {
    let right = "sizeof(DLManagedTensorVersioned) == SELECT(80, 64, 60)";
    let wrong = "sizeof(DLManagedTensorVersioned) == SELECT(72, 56, 52)";
    let text = assertions();
    assert_eq!(text.matches(right).count(), 1);
    for compiler in compilers() {
        let messages = refused(&compiler, "wrong.c", &text.replace(right, wrong));
        let messages = messages.unwrap_or_else(|| panic!("{compiler} accepts a wrong size"));
        assert!(messages.contains("DLManagedTensorVersioned"), "{compiler}:\n{messages}");
    }
}
