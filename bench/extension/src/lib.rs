//! An extension on dlbridge or on rust-numpy, whose builds and sizes are compared. It has either the functions of
//! `examples/template`, or functions whose only difference is the type of their argument.

#[cfg(all(feature = "template", feature = "dlbridge"))]
#[path = "../../../examples/template/src/lib.rs"]
mod template;
#[cfg(all(feature = "template", feature = "rust-numpy"))]
mod template;
#[cfg(not(feature = "template"))]
mod typed_arguments;
