//! Attributes: numbers, booleans, strings, lists, defaults, schemas.

mod common;

use common::{Object, boolean, float, int, message, none, one, small, text, zeros};
use dlbridge_ops::tvm::Any;
use dlbridge_ops::{Define, Floats, Ints, op};

#[op(shape(out = [6]))]
fn describe(
    _x: &[f32],
    float: f64,
    int: i64,
    flag: bool,
    text: &str,
    ints: Ints<'_>,
    floats: Floats<'_>,
    out: &mut [f64],
) {
    let flag = f64::from(u8::from(flag));
    let ints = ints.iter().sum::<i64>() as f64;
    out.copy_from_slice(&[float, int as f64, flag, text.len() as f64, ints, floats.iter().sum()]);
}

#[op(default(by = 2.0, times = 3, flag = true, text = "it's \"x\"", ints = [1, -2], floats = [0.5, 1.0]))]
fn defaults(
    x: &[f32],
    by: f64,
    times: i64,
    flag: bool,
    text: &str,
    ints: Ints<'_>,
    floats: Floats<'_>,
    out: &mut [f32],
) {
    assert!(flag && text.starts_with("it") && ints[..] == [1, -2] && floats[..] == [0.5, 1.0]);
    out.iter_mut().zip(x).for_each(|(out, x)| *out = x + by as f32 * times as f32);
}

fn described(rest: [Any; 6]) -> Vec<f64> {
    let mut x = zeros::<f32>(&[1]);
    let [a, b, c, d, e, f] = rest;
    one::<describe::Operator, f64>(&[x.any(), a, b, c, d, e, f]).unwrap()
}

#[test]
fn attributes_of_each_kind_arrive() {
    let long = Object::string("a long text");
    let (elements, numbers) = ([int(1), int(-4)], [float(0.5), int(1)]);
    let (ints, floats) = (Object::array(&elements), Object::array(&numbers));
    let found =
        described([float(1.5), int(-7), boolean(true), long.any(), ints.any(), floats.any()]);
    assert_eq!(found, [1.5, -7.0, 1.0, 11.0, -3.0, 1.5]);
}

#[test]
fn strings_and_lists_of_each_form_arrive() {
    let (shape, empty) = (Object::shape(&[2, 3]), Object::array(&[]));
    let found =
        described([int(1), int(0), boolean(false), small("seven b"), shape.any(), shape.any()]);
    assert_eq!(found, [1.0, 0.0, 0.0, 7.0, 5.0, 5.0]);
    let found = described([int(1), int(0), boolean(false), small(""), empty.any(), empty.any()]);
    assert_eq!(found, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let found = described([int(1), int(0), boolean(false), text(c"raw"), empty.any(), empty.any()]);
    assert_eq!(found[3], 3.0);
}

#[test]
fn attribute_of_another_kind_is_refused() {
    let empty = Object::array(&[]);
    let good = [float(1.0), int(1), boolean(true), small("x"), empty.any(), empty.any()];
    let with = |position: usize, any: Any| {
        let (mut x, mut rest) = (zeros::<f32>(&[1]), good);
        rest[position] = any;
        let [a, b, c, d, e, f] = rest;
        message::<describe::Operator>(&[x.any(), a, b, c, d, e, f])
    };
    assert_eq!(with(0, boolean(true)), "describe: float must be a float, but is a boolean");
    assert_eq!(with(1, float(1.0)), "describe: int must be an integer, but is a float");
    assert_eq!(with(2, int(1)), "describe: flag must be a boolean, but is an integer");
    assert_eq!(with(3, none()), "describe: text must be a string, but is None");
    assert_eq!(with(4, int(1)), "describe: ints must be a list of integers, but is an integer");
    let mixed = [int(1), float(1.0)];
    let mixed = Object::array(&mixed);
    assert_eq!(with(4, mixed.any()), "describe: ints: element 1 must be an integer");
    let strings = [small("x")];
    let strings = Object::array(&strings);
    assert_eq!(with(5, strings.any()), "describe: floats: element 0 must be a number");
    assert!(with(3, text(c"\xff")).starts_with("describe: text: must be UTF-8"));
}

#[test]
fn omitted_attributes_have_their_defaults() {
    let mut x = zeros::<f32>(&[1]);
    assert_eq!(one::<defaults::Operator, f32>(&[x.any()]).unwrap(), [6.0]);
    assert_eq!(one::<defaults::Operator, f32>(&[x.any(), float(1.5)]).unwrap(), [4.5]);
    assert_eq!(one::<defaults::Operator, f32>(&[x.any(), none(), int(1)]).unwrap(), [2.0]);
}

#[test]
fn schema_has_the_defaults() {
    let expected = "defaults(Tensor x, float by=2., int times=3, bool flag=True, str text=\"it's \\\"x\\\"\", \
        int[] ints=[1, -2], float[] floats=[0.5, 1.0]) -> Tensor";
    assert_eq!(defaults::Operator::OPERATOR.schema(), expected);
}

#[op(default(floats = [-0.5, 1.0], by = -2.0, n = -1))]
fn negative(x: &[f32], floats: Floats<'_>, by: f64, n: i64, out: &mut [f32]) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = x + (floats[0] + by) as f32 * n as f32);
}

#[test]
fn defaults_may_be_negative() {
    let expected =
        "negative(Tensor x, float[] floats=[-0.5, 1.0], float by=-2., int n=-1) -> Tensor";
    assert_eq!(negative::Operator::OPERATOR.schema(), expected);
    assert_eq!(one::<negative::Operator, f32>(&[zeros::<f32>(&[1]).any()]).unwrap(), [2.5]);
}

#[op(default(text = "\u{7}\u{0}1\r\n\t\u{7f}\u{200b}\u{e9}\\u\"'"))]
fn escaped(x: &[f32], text: &str, out: &mut [f32]) {
    out.fill(x[0] + text.len() as f32);
}

/// PyTorch reads other escapes than Rust writes.
#[test]
fn schema_has_the_escapes_of_pytorch() {
    let expected = "escaped(Tensor x, str text=\"\\007\\0001\\015\\n\\t\\177\u{200b}\u{e9}\\\\u\\\"'\") -> Tensor";
    assert_eq!(escaped::Operator::OPERATOR.schema(), expected);
}

#[op(default(by = 2.0, shift = 1), shape(out = like(x)))]
fn late(by: f64, y: Option<&[f32]>, x: &[f32], shift: i64, z: Option<&[f32]>, out: &mut [f32]) {
    let (y, z) = (y.map_or(0.0, |y| y[0]), z.map_or(0.0, |z| z[0]));
    out.iter_mut().zip(x).for_each(|(out, x)| *out = x * by as f32 + shift as f32 + y + z);
}

#[test]
fn schema_has_defaults_only_behind_required_parameters() {
    let operator = late::Operator::OPERATOR;
    let parameters = "float by, Tensor? y, Tensor x, int shift=1, Tensor? z=None";
    assert_eq!(operator.schema(), format!("late({parameters}) -> Tensor"));
    let out = format!("late.out({parameters}, *, Tensor(a0!) out) -> ()");
    assert_eq!(operator.out_schema(), out);
    let mut x = zeros::<f32>(&[1]);
    assert_eq!(one::<late::Operator, f32>(&[none(), none(), x.any()]).unwrap(), [1.0]);
}
