//! Views as text: nested brackets with a limit.

use dlbridge::{Tensor, TensorRef};

#[test]
fn display_three_axes_separates_planes_by_an_empty_line() {
    let tensor = Tensor::from([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]);
    let text = tensor.view::<i32>().unwrap().to_string();
    assert_eq!(text, "[[[1, 2],\n  [3, 4]],\n\n [[5, 6],\n  [7, 8]]]");
}

#[test]
fn display_follows_indices_and_not_memory() {
    let tensor = Tensor::from([[1, 2, 3], [4, 5, 6]]).transpose().flip(0).unwrap();
    assert_eq!(tensor.view::<i32>().unwrap().to_string(), "[[3, 6],\n [2, 5],\n [1, 4]]");
}

#[test]
fn display_of_one_element_or_none() {
    let scalar = Tensor::from_parts(vec![7], []).unwrap();
    assert_eq!(scalar.view::<i32>().unwrap().to_string(), "7");
    let empty = Tensor::from_parts(Vec::<i32>::new(), [3, 0]).unwrap();
    assert_eq!(empty.view::<i32>().unwrap().to_string(), "[]");
    let endless = Tensor::from_parts(Vec::<i32>::new(), [usize::MAX >> 2, 0]).unwrap();
    assert_eq!(endless.view::<i32>().unwrap().to_string(), "[]");
}

#[test]
#[cfg_attr(miri, ignore = "a thousand elements take half a minute")]
fn display_over_the_limit_is_shortened_unless_alternate() {
    let tensor = Tensor::from_parts((0..1001).collect::<Vec<i32>>(), [7, 143]).unwrap();
    let view = tensor.view::<i32>().unwrap();
    let short = view.to_string();
    assert!(short.starts_with("[[0, 1, 2, ..., 140, 141, 142],\n [143,"), "{short}");
    assert!(short.contains("],\n ...,\n [572, "), "{short}");
    assert_eq!(format!("{view:#}").matches(", ").count(), 7 * 142);
    let within = view.slice(1, ..142).unwrap();
    assert!(!within.to_string().contains("..."));
}

#[test]
#[cfg_attr(miri, ignore = "ten thousand elements take minutes")]
fn display_of_many_repeated_elements_ends() {
    let one = [1_u8];
    let repeated = TensorRef::from(&one).broadcast_to([2; usize::BITS as usize - 4]).unwrap();
    let text = repeated.view::<u8>().unwrap().to_string();
    assert_eq!(text.matches('1').count(), 10_000);
    assert!(text.ends_with("...]"));
}

#[test]
fn display_formats_each_element() {
    let mut tensor = Tensor::from([1.0_f64, -2.5]);
    assert_eq!(format!("{:+6.2}", tensor.view_mut::<f64>().unwrap()), "[ +1.00,  -2.50]");
    let text = format!("{:x?}", tensor.view_mut::<f64>().unwrap());
    assert_eq!(text, "TensorViewMut { shape: [2], strides: [1], elements: [1.0, -2.5] }");
}
