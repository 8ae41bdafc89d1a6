//! Compares this crate with the real `dlpack.h`.
//!
//! A C program, generated here from the Rust declarations and compiled against the header, prints
//! one line for every fact: sizes, alignments, offsets, types of fields, prototypes of function
//! pointers, values of constants. The Rust side makes the same lines. The test also parses the
//! header's text, to find names that this crate lacks.
//!
//! `DLPACK_INCLUDE` names the directory that holds `dlpack/dlpack.h`. `CC` and `CXX` name the
//! compilers; `cc` and `c++` are the defaults.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_void};
use std::fmt::Display;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use dlbridge_sys::*;

/// Macros of the header without a value to mirror.
const NOT_MIRRORED: [&str; 3] = ["DLPACK_DLPACK_H_", "DLPACK_EXTERN_C", "DLPACK_DLL"];

/// The program before `main`. `IS` tests whether an expression has exactly a type.
const PRELUDE: &str = "\
#include <stddef.h>
#include <stdio.h>
#include <dlpack/dlpack.h>
#ifdef __cplusplus
#include <type_traits>
#define IS(expr, ...) std::is_same<decltype(expr), __VA_ARGS__>::value
#else
#include <stdalign.h>
#define IS(expr, ...) _Generic((expr), __VA_ARGS__: 1, default: 0)
#endif
";

/// A Rust type that C can spell.
trait CType {
    fn c() -> String;
}

/// The C type of a field, found by inference.
fn c_type_of<S, F: CType>(_: fn(&S) -> &F) -> String {
    F::c()
}

macro_rules! c_types { ($([$($generics:tt)*] $rust:ty => $c:expr;)*) => {
    $(impl<$($generics)*> CType for $rust { fn c() -> String { $c.to_string() } })*
}}
c_types! {
    [] () => "void"; [] c_void => "void"; [] u8 => "uint8_t"; [] u16 => "uint16_t";
    [] u32 => "uint32_t"; [] i32 => "int32_t"; [] i64 => "int64_t"; [] u64 => "uint64_t";
    [] DLDeviceType => "DLDeviceType";
    [] DLDataTypeCode => c_type_of(|code: &Self| &code.0);
    // Not `c_char` alone: it is the same Rust type as `u8` on some platforms.
    [] *const c_char => "const char*";
    [T: CType] *mut T => T::c() + "*";
    [F: CType] Option<F> => F::c();
}

macro_rules! c_functions { ($(($($arg:ident)*))*) => {$(
    impl<R: CType, $($arg: CType),*> CType for unsafe extern "C" fn($($arg),*) -> R {
        fn c() -> String {
            format!("{} (*)({})", R::c(), [$($arg::c()),*].join(", "))
        }
    }
)*}}
c_functions! { (A) (A B) (A B C) (A B C D) }

/// The facts to compare.
#[derive(Default)]
struct Abi {
    /// The lines that the C program should print.
    lines: Vec<String>,
    /// The statements that print them.
    statements: String,
    /// `Type`, `Type.member` and `MACRO`, as `names_in` finds them in the header.
    names: BTreeSet<String>,
}

impl Abi {
    /// Adds a line and the statement that prints it, given `printf` arguments for the value.
    fn fact(&mut self, what: &str, rust: impl Display, format: &str, c: &str) {
        self.lines.push(format!("{what} {rust}"));
        self.statements += &format!("  printf(\"{what} {format}\\n\", {c});\n");
    }

    fn number(&mut self, what: &str, rust: impl Display, c: &str) {
        self.fact(what, rust, "%lld", &format!("(long long)({c})"));
    }

    fn c_type(&mut self, what: &str, rust: &str, c: &str) {
        let c = format!("IS({c}, {rust}) ? \"{rust}\" : \"another type\"");
        self.fact(&format!("type {what}"), rust, "%s", &c);
    }

    fn layout<T>(&mut self, name: &str) {
        self.names.insert(name.into());
        self.number(&format!("sizeof {name}"), size_of::<T>(), &format!("sizeof({name})"));
        self.number(&format!("alignof {name}"), align_of::<T>(), &format!("alignof({name})"));
    }

    fn field<S, F: CType>(&mut self, s: &str, f: &str, offset: usize, get: fn(&S) -> &F) {
        let (name, c) = (format!("{s}.{f}"), format!("(({s}*)0)->{f}"));
        self.number(&format!("offsetof {name}"), offset, &format!("offsetof({s}, {f})"));
        self.number(&format!("sizeof {name}"), size_of::<F>(), &format!("sizeof({c})"));
        self.c_type(&name, &c_type_of(get), &c);
        self.names.insert(name);
    }
}

macro_rules! structs { ($($s:ident { $($f:ident)* })*) => {
    $(impl CType for $s { fn c() -> String { stringify!($s).into() } })*

    fn structs(abi: &mut Abi) {$(
        // Without `..`: does not compile while a field of the crate is missing here.
        let _ = |$s { $($f: _),* }: &$s| ();
        abi.layout::<$s>(stringify!($s));
        $(abi.field(stringify!($s), stringify!($f), offset_of!($s, $f), |s: &$s| &s.$f);)*
    )*}
}}
structs! {
    DLPackVersion { major minor }
    DLDevice { device_type device_id }
    DLDataType { code bits lanes }
    DLTensor { data device ndim dtype shape strides byte_offset }
    DLManagedTensor { dl_tensor manager_ctx deleter }
    DLManagedTensorVersioned { version manager_ctx deleter flags dl_tensor }
    DLPackExchangeAPIHeader { version prev_api }
    DLPackExchangeAPI {
        header managed_tensor_allocator managed_tensor_from_py_object_no_sync
        managed_tensor_to_py_object_no_sync dltensor_from_py_object_no_sync current_work_stream
    }
}

macro_rules! codes { ($abi:ident, $type:ident: $($code:ident)*) => {
    $abi.names.insert(stringify!($type).into());
    $(
        let code: $type = $code;
        $abi.number(stringify!($code), code.0, stringify!($code));
        $abi.names.insert(concat!(stringify!($type), ".", stringify!($code)).into());
    )*
}}

macro_rules! macros { ($abi:ident, $($name:ident)*) => {$(
    $abi.number(stringify!($name), $name, stringify!($name));
    $abi.names.insert(stringify!($name).into());
)*}}

macro_rules! functions { ($abi:ident, $($name:ident)*) => {$(
    let c = <$name as CType>::c();
    $abi.c_type(stringify!($name), &c, concat!("(", stringify!($name), ")0"));
    $abi.names.insert(stringify!($name).into());
)*}}

fn abi() -> Abi {
    let mut abi = Abi::default();
    structs(&mut abi);
    abi.layout::<DLDeviceType>("DLDeviceType");
    // The plus turns an enumerator of C++ into the enumeration's underlying type.
    abi.c_type("+kDLCPU", &c_type_of(|device_type: &DLDeviceType| &device_type.0), "+kDLCPU");
    codes!(abi, DLDeviceType:
        kDLCPU kDLCUDA kDLCUDAHost kDLOpenCL kDLVulkan kDLMetal kDLVPI kDLROCM kDLROCMHost
        kDLExtDev kDLCUDAManaged kDLOneAPI kDLWebGPU kDLHexagon kDLMAIA kDLTrn);
    codes!(abi, DLDataTypeCode:
        kDLInt kDLUInt kDLFloat kDLOpaqueHandle kDLBfloat kDLComplex kDLBool kDLFloat8_e3m4
        kDLFloat8_e4m3 kDLFloat8_e4m3b11fnuz kDLFloat8_e4m3fn kDLFloat8_e4m3fnuz kDLFloat8_e5m2
        kDLFloat8_e5m2fnuz kDLFloat8_e8m0fnu kDLFloat6_e2m3fn kDLFloat6_e3m2fn kDLFloat4_e2m1fn);
    macros!(abi,
        DLPACK_MAJOR_VERSION DLPACK_MINOR_VERSION DLPACK_FLAG_BITMASK_READ_ONLY
        DLPACK_FLAG_BITMASK_IS_COPIED DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
    functions!(abi,
        DLPackManagedTensorAllocator DLPackManagedTensorFromPyObjectNoSync
        DLPackDLTensorFromPyObjectNoSync DLPackCurrentWorkStream
        DLPackManagedTensorToPyObjectNoSync);
    abi
}

fn include_dir() -> PathBuf {
    let dir = env::var_os("DLPACK_INCLUDE").map(PathBuf::from).expect(
        "DLPACK_INCLUDE is not set; it must name the directory that holds dlpack/dlpack.h \
         (cargo xtask test sets it)",
    );
    assert!(dir.join("dlpack/dlpack.h").is_file(), "no dlpack/dlpack.h in {}", dir.display());
    dir
}

/// Compiles the program, runs it and compares what it prints. `compiler` may hold arguments.
fn compare(compiler: &str, standard: &str, file: &str) {
    let (abi, include) = (abi(), include_dir());
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let program = source.with_extension(format!("{standard}{}", env::consts::EXE_SUFFIX));
    let text = format!("{PRELUDE}int main(void) {{\n{}  return 0;\n}}\n", abi.statements);
    fs::write(&source, text).expect("the C source is written");

    let mut words = compiler.split_whitespace();
    let compiled = Command::new(words.next().expect("the compiler has a name"))
        .args(words)
        .arg(format!("-std={standard}"))
        .args([Path::new("-I"), &include, &source, Path::new("-o"), &program])
        .output()
        .unwrap_or_else(|e| panic!("{compiler} does not start: {e}"));
    let messages = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{compiler} rejects {}:\n{messages}", source.display());

    let ran = Command::new(&program).output().expect("the program starts");
    assert!(ran.status.success(), "{} ends with {}", program.display(), ran.status);
    let printed = String::from_utf8(ran.stdout).expect("the program prints text");
    let printed: Vec<&str> = printed.lines().collect();
    assert_eq!(abi.lines.len(), printed.len(), "one line for every fact");
    let differences: Vec<String> = std::iter::zip(&abi.lines, printed)
        .filter(|(rust, c)| rust != c)
        .map(|(rust, c)| format!("  here:   {rust}\n  header: {c}\n"))
        .collect();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.concat());
}

#[test]
#[ignore = "needs dlpack.h: run cargo xtask ci, or set DLPACK_INCLUDE and pass --ignored"]
fn abi_compared_with_c_is_equal() {
    compare(&env::var("CC").unwrap_or("cc".into()), "c11", "abi.c");
}

/// In C++ the header gives `DLDeviceType` a fixed underlying type. C++ also distinguishes types that
/// are compatible in C, such as an enumeration and its integer type.
#[test]
#[ignore = "needs dlpack.h: run cargo xtask ci, or set DLPACK_INCLUDE and pass --ignored"]
fn abi_compared_with_cpp_is_equal() {
    let compiler = env::var("CXX");
    if compiler.is_err() && Command::new("c++").arg("--version").output().is_err() {
        return eprintln!("skipped: no c++ here, and CXX is not set");
    }
    compare(&compiler.unwrap_or("c++".into()), "c++11", "abi.cpp");
}

fn without_comments(mut text: &str) -> String {
    let mut code = String::new();
    while let Some(start) = text.find("/*").into_iter().chain(text.find("//")).min() {
        code += &text[..start];
        let (_, comment) = text.split_at(start);
        // The newline after `//` stays: it ends a preprocessor line.
        let end = match comment.starts_with("/*") {
            true => comment.find("*/").map(|at| at + 2),
            false => comment.find('\n'),
        };
        text = &comment[end.unwrap_or(comment.len())..];
    }
    code + text
}

/// The name that a C declaration, member or enumerator declares.
fn declared(declaration: &str) -> &str {
    let not_word = |c: char| !c.is_alphanumeric() && c != '_';
    if let Some((_, function)) = declaration.split_once("(*") {
        return function.split(not_word).next().unwrap_or_default();
    }
    let before = declaration.split(['=', '[', ':', '(']).next().unwrap_or_default();
    before.trim_end().rsplit(not_word).next().unwrap_or_default()
}

/// Every name that the header declares: `Type`, `Type.member`, `MACRO`. Text that this cannot parse
/// becomes an odd name, which fails the comparison.
fn names_in(header: &str) -> BTreeSet<String> {
    let (mut names, mut code, mut in_cpp) = (BTreeSet::new(), String::new(), false);
    for line in without_comments(header).lines().map(str::trim) {
        if let Some(directive) = line.strip_prefix('#').map(str::trim_start) {
            in_cpp = directive == "ifdef __cplusplus";
            if let Some(definition) = directive.strip_prefix("define") {
                names.extend(definition.split_whitespace().next().map(declared).map(String::from));
            }
        } else if !in_cpp {
            code.extend([line, "\n"]);
        }
    }
    let mut depth = 0;
    let top_level = code.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0 && c == ';'
    });
    for item in top_level.map(str::trim).filter(|item| !item.is_empty()) {
        let (head, rest) = item.split_once('{').unwrap_or((item, ""));
        let Some((body, name)) = rest.rsplit_once('}') else {
            names.insert(declared(item).to_string());
            continue;
        };
        let separator = if head.contains("enum") { ',' } else { ';' };
        for member in body.split(separator).map(str::trim).filter(|member| !member.is_empty()) {
            names.insert(format!("{}.{}", name.trim(), declared(member)));
        }
        names.insert(name.trim().to_string());
    }
    names
}

#[test]
#[ignore = "needs dlpack.h: run cargo xtask ci, or set DLPACK_INCLUDE and pass --ignored"]
fn names_of_the_header_are_all_declared() {
    let path = include_dir().join("dlpack/dlpack.h");
    let header = names_in(&fs::read_to_string(path).expect("the header is text"));
    let mut here = abi().names;
    here.extend(NOT_MIRRORED.map(String::from));
    let lacking: Vec<_> = header.difference(&here).collect();
    let surplus: Vec<_> = here.difference(&header).collect();
    assert!(header == here, "missing here: {lacking:?}\nmissing in the header: {surplus:?}");
}

/// On the main branch of DLPack after 1.3, so not in its header.
const NEWER: [&str; 4] = ["kDLTPU", "kDLTPUHost", "kDLAscend", "kDLBcomplex"];

/// Needs no header. Add every new constant of the crate to the lists above.
#[test]
fn every_constant_is_compared() {
    let names = abi().names;
    let sources = [include_str!("../src/enums.rs"), include_str!("../src/tensor.rs")];
    for line in sources.concat().lines().map(str::trim) {
        let name = line.strip_prefix("pub const ").unwrap_or(line);
        let name = name.split([' ', ':']).next().unwrap_or_default();
        if name.starts_with("DLPACK_") || (name.starts_with("kDL") && line.contains('=')) {
            let listed = names.iter().any(|known| known.rsplit('.').next() == Some(name));
            assert!(
                listed || NEWER.contains(&name),
                "{name} is in the crate and not compared with the header"
            );
        }
    }
}
