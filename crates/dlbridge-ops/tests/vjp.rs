//! The check of each vjp: its parameters fit the operator by their names and kinds.

// `library!` has code that the loader runs, which calls the loader, which Miri lacks. Nothing here is unsafe.
#![cfg(not(miri))]
#![allow(unused_variables, reason = "no test calls the functions")]

use dlbridge_ops::private::check;
use dlbridge_ops::{ErrorKind, Floats, InPlace, Ints, Out, View, library, op};

/// Defines a library of an operator and its vjp for each line, and checks the message for it.
macro_rules! messages {
    ($test:ident: $($operator:ident($($taken:tt)*), $vjp:ident($($of_vjp:tt)*): $message:expr;)*) => {
        $(mod $operator {
            use super::*;

            #[op(vjp = $vjp)]
            pub(super) fn $operator($($taken)*, out: &mut [f32]) {}

            #[op]
            pub(super) fn $vjp($($of_vjp)*) {}

            library!("vjps": $operator, $vjp);
        })*

        #[test]
        fn $test() {
            let cases: &[(&dlbridge_ops::Library, Option<&str>)] = &[$((&$operator::LIBRARY, $message)),*];
            for (library, expected) in cases {
                let found = check(library).err();
                assert_eq!(found.as_ref().map(ToString::to_string).as_deref(), *expected);
                assert!(found.is_none_or(|error| error.kind() == ErrorKind::Type));
            }
        }
    };
}

messages! { vjp_with_the_kinds_of_its_operator_is_accepted:
    all(x: &[f32], o: Option<&[f32]>, f: f64, i: i64, b: bool, s: &str, ints: Ints<'_>, floats: Floats<'_>),
    all_vjp(
        x: View<'_, f32>, o: Option<View<'_, f32>>, f: f64, i: i64, b: bool, s: &str, ints: Ints<'_>, floats: Floats<'_>,
        out: &[f32], grad_out: Option<&[f32]>, grad_x: &mut [f32], grad_o: &mut [f32]
    ): None;
    sometimes(x: &[f32]), sometimes_vjp(x: Option<&[f32]>, grad_out: &[f32], grad_x: &mut [f32]): None;
}

messages! { vjp_with_another_kind_is_refused:
    a(x: &[f32], by: f64), a_vjp(grad_out: &[f32], x: f64, grad_x: &mut [f32]):
        Some("a_vjp is the vjp of a, so it cannot take x as a float: in a it is a tensor; write it with the same type");
    b(x: &[f32], by: f64), b_vjp(grad_out: &[f32], by: &[f32], grad_x: &mut [f32]):
        Some("b_vjp is the vjp of b, so it cannot take by as a tensor: in b it is a float; write it with the same type");
    c(x: &[f32], by: f64), c_vjp(grad_out: &[f32], by: i64, grad_x: &mut [f32]):
        Some("c_vjp is the vjp of c, so it cannot take by as an integer: in c it is a float; write it with the same type");
    d(x: &[f32], y: Option<&[f32]>), d_vjp(y: &[f32], grad_out: &[f32], grad_x: &mut [f32]):
        Some("d_vjp is the vjp of d, so it cannot take y as a tensor: in d it is a tensor or None; write it with the same type");
    e(x: &[f32]), e_vjp(x: &[f32], out: f64, grad_x: &mut [f32]):
        Some("e_vjp is the vjp of e, so it cannot take out as a float: it is an output of e; write it as a tensor, such as `&[f32]`");
    f(x: &[f32]), f_vjp(x: &[f32], grad_out: i64, grad_x: &mut [f32]):
        Some("f_vjp is the vjp of f, so it cannot take grad_out as an integer: it is the gradient of an output of f; \
            write it as a tensor, such as `&[f32]`");
}

messages! { vjp_with_another_name_is_refused:
    g(x: &[f32]), g_vjp(grad_out: &[f32], y: &[f32], grad_x: &mut [f32]):
        Some("g_vjp is the vjp of g, so it cannot take y; it may take the inputs and outputs of g by their names, and \
            grad_NAME for the gradient of each output");
    h(x: &[f32]), h_vjp(grad_out: &[f32], grad_x: &[f32], grad_y: &mut [f32]):
        Some("h_vjp is the vjp of h, so it cannot take grad_x; it may take the inputs and outputs of h by their names, and \
            grad_NAME for the gradient of each output");
    i(x: &[f32]), i_vjp(grad_out: &[f32], x: &mut [f32]):
        Some("i_vjp is the vjp of i, so it cannot return x; its outputs are grad_NAME, for tensors that i takes");
    j(x: &[f32], by: f64), j_vjp(grad_out: &[f32], grad_by: &mut [f32]):
        Some("j_vjp is the vjp of j, so it cannot return grad_by; its outputs are grad_NAME, for tensors that j takes");
}

messages! { vjp_in_place_is_refused:
    k(x: InPlace<'_, f32>), k_vjp(grad_out: &[f32], grad_x: &mut [f32]):
        Some("k_vjp is the vjp of k, but k changes x in place; give it an output instead");
    l(x: &[f32]), l_vjp(grad_out: InPlace<'_, f32>, grad_x: &mut [f32]):
        Some("l_vjp is the vjp of l, but l_vjp changes grad_out in place; give it an output instead");
}

messages! { vjp_with_other_types_is_refused:
    m(x: &[f32]), m_vjp(grad_out: &[f64], grad_x: &mut [f32]):
        Some("m_vjp is the vjp of m, so its types must be grad_out: float32, grad_x: float32, as those of m");
    n(x: &[f64]), n_vjp(x: &[f64], grad_out: &[f32], grad_x: &mut [f32]):
        Some("n_vjp is the vjp of n, so its types must be x: float64, grad_out: float32, grad_x: float64, as those of n");
    o(x: View<'_, f32, 2>), o_vjp(x: &[f32], grad_out: View<'_, f32, 1>, grad_x: &mut [f32]):
        Some("o_vjp is the vjp of o, so its types must be x: float32 of 2 dimensions, grad_out: float32 of 2 dimensions, \
            grad_x: float32 of 2 dimensions, as those of o");
    p(x: View<'_, f32, 1>, y: Option<View<'_, f32, 2>>), p_vjp(grad_out: View<'_, f32>, y: Option<&[f32]>, grad_y: Out<'_, f32, 1>):
        Some("p_vjp is the vjp of p, so its types must be grad_out: float32 of 1 dimensions, y: float32 of 2 dimensions, \
            grad_y: float32 of 2 dimensions, as those of p");
}

mod generic {
    use super::*;

    #[op(vjp = q_vjp, T in [f32, f64], shape(out = [x[0]]))]
    pub(super) fn q<T>(x: View<'_, T, 2>, out: &mut [T]) {}

    #[op(T in [f64, f32], shape(grad_x = like(x)))]
    pub(super) fn q_vjp<T>(x: View<'_, T, 2>, grad_out: View<'_, T, 1>, grad_x: Out<'_, T, 2>) {}

    #[op(vjp = r_vjp, T in [f32, f64])]
    pub(super) fn r<T>(x: &[T], out: &mut [T]) {}

    #[op]
    pub(super) fn r_vjp(grad_out: &[f32], grad_x: &mut [f32]) {}

    library!("vjps": q, q_vjp, r, r_vjp);
}

#[test]
fn vjp_has_a_kernel_for_each_of_its_operator() {
    let expected = "r_vjp is the vjp of r, so its types must be grad_out: float64, grad_x: float64, as those of r";
    assert_eq!(check(&generic::LIBRARY).unwrap_err().to_string(), expected);
}
