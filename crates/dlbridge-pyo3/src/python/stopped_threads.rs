//! Keeps the threads that a dying interpreter stops from unwinding Rust frames.
//!
//! While Python ends, a daemon thread that waits for the interpreter must not return. From version 3.14 on it waits for
//! ever. Earlier versions call `pthread_exit`, which glibc implements by unwinding the stack: the destructors of Rust
//! frames would change reference counts without the interpreter's lock, and the first `extern "C"` frame would abort.
//!
//! The unwinder asks the *personality function* of each frame what to do there. All Rust frames of a library find theirs
//! through one variable, which the compiler makes. When the library is loaded, this module points the variable at a
//! function that waits for ever if the unwinding is of that kind, and otherwise calls Rust's. So it covers the frames of
//! PyO3 and of the extension too. musl and macOS end a thread without unwinding it. FreeBSD unwinds it, and is not covered; nor
//! are libraries of operators that do not link this crate.

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread;

/// A personality function of the Itanium C++ ABI: version, actions, class of the exception, exception, context.
type Personality =
    unsafe extern "C-unwind" fn(c_int, c_int, u64, *mut c_void, *mut c_void) -> c_int;

/// The action of an unwinding that ends the thread: `_UA_FORCE_UNWIND`.
const FORCED: c_int = 8;

// The address of the compiler's variable; NULL in a library without code that unwinds. Both symbols are weak, and the
// second is defined once in a unit of the assembler, for a library with several versions of this crate.
std::arch::global_asm!(
    ".ifndef dlbridge_personality_variable",
    ".weak DW.ref.rust_eh_personality",
    ".hidden DW.ref.rust_eh_personality",
    ".weak dlbridge_personality_variable",
    ".hidden dlbridge_personality_variable",
    ".pushsection .data.rel.ro.dlbridge,\"aw\"",
    ".balign 8",
    "dlbridge_personality_variable:",
    ".dc.a DW.ref.rust_eh_personality",
    ".popsection",
    ".endif",
);

unsafe extern "C" {
    #[link_name = "dlbridge_personality_variable"]
    static VARIABLE: Option<&'static AtomicPtr<c_void>>;
}

/// Rust's own function.
static RUSTS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The dynamic linker calls the functions of this section when it has loaded the library.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    // SAFETY: the assembler code above defines it, and nothing writes it after the dynamic linker. The variable that it
    // leads to is aligned, lives as long as the library, is in memory that can be written, as the compilers of Rust and C++
    // make it, and is written here alone, before a thread can use the library; by several versions in turn.
    let Some(variable) = (unsafe { VARIABLE }) else { return };
    RUSTS.store(variable.load(Ordering::Relaxed), Ordering::Relaxed);
    let ours: Personality = personality;
    variable.store(ours as *mut c_void, Ordering::Release);
}

unsafe extern "C-unwind" fn personality(
    version: c_int,
    actions: c_int,
    class: u64,
    exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    if actions & FORCED != 0 {
        loop {
            thread::park();
        }
    }
    // SAFETY: `at_load` took the address from the compiler's variable, whose functions have this type, before it made
    // this one known.
    let rusts: Personality = unsafe { mem::transmute(RUSTS.load(Ordering::Relaxed)) };
    // SAFETY: the unwinder's own arguments.
    unsafe { rusts(version, actions, class, exception, context) }
}
