//! Compiles loops twice on x86-64: for all processors, and for those with AVX2.

/// Defines an unsafe function that runs `$loops`, as compiled for AVX2 if the processor has it. `$loops` is inlined
/// into both.
macro_rules! for_each_processor {
    (
        $(#[$attribute:meta])*
        $vis:vis unsafe fn $name:ident<P $(, $n:ident)?>($a:ident, $b:ident, $ends:ident) by $loops:ident
    ) => {
        $(#[$attribute])*
        $vis unsafe fn $name<P: Piece $(, const $n: usize)?>($a: &Axis, $b: &Axis, $ends: Ends) {
            #[cfg(all(feature = "std", target_arch = "x86_64"))]
            {
                #[target_feature(enable = "avx2")]
                unsafe fn with_avx2<P: Piece $(, const $n: usize)?>($a: &Axis, $b: &Axis, $ends: Ends) {
                    // SAFETY: the loops have the contract of the enclosing function, and get its arguments.
                    unsafe { $loops::<P $(, $n)?>($a, $b, $ends) }
                }
                // Not inlined: each caller would get a copy of the loops that few processors run.
                #[inline(never)]
                unsafe fn with_sse2<P: Piece $(, const $n: usize)?>($a: &Axis, $b: &Axis, $ends: Ends) {
                    // SAFETY: the loops have the contract of the enclosing function, and get its arguments.
                    unsafe { $loops::<P $(, $n)?>($a, $b, $ends) }
                }
                // SAFETY: the processor has AVX2 in the first case; every processor of x86-64 has SSE2.
                unsafe {
                    match std::arch::is_x86_feature_detected!("avx2") {
                        true => with_avx2::<P $(, $n)?>($a, $b, $ends),
                        false => with_sse2::<P $(, $n)?>($a, $b, $ends),
                    }
                }
            }
            #[cfg(not(all(feature = "std", target_arch = "x86_64")))]
            // SAFETY: the loops have the contract of this function, and get its arguments.
            unsafe {
                $loops::<P $(, $n)?>($a, $b, $ends)
            }
        }
    };
}

pub(super) use for_each_processor;
