// Included by the packages of dlbridge and rust-numpy.

/// Defines a function for each name, that has one argument of this type and does nothing with it.
macro_rules! no_ops {
    ($($(#[$doc:meta])* $name:ident: $argument:ty;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            fn $name(x: $argument) {
                black_box(x.len());
            }
        )*
    };
}
