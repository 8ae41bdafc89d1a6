//! Comparison of views, the forms of an index, and views as text: nested brackets with a limit.

use dlbridge::{DataType, Tensor, TensorRef};

#[test]
fn views_of_equal_elements_in_other_layouts_are_equal() {
    let rows = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    let columns = Tensor::from_parts_strided(vec![1, 4, 2, 5, 3, 6], [2, 3], [1, 2], 0).unwrap();
    let (rows, columns) = (rows.view::<i32>().unwrap(), columns.view::<i32>().unwrap());
    assert_eq!(rows, columns);
    assert_eq!(rows.transpose(), columns.transpose());
    assert_ne!(rows, columns.flip(0).unwrap());
}

#[test]
fn views_of_equal_elements_in_other_shapes_differ() {
    let tensor = Tensor::from([1, 2, 3, 4]);
    let view = tensor.view::<i32>().unwrap();
    assert_ne!(view, view.reshape([2, 2]).unwrap());
    assert_ne!(view, view.slice(0, ..3).unwrap());
    let (empty, other) = (view.slice(0, ..0).unwrap(), Tensor::from(Vec::<[i32; 2]>::new()));
    assert_ne!(empty, other.view::<i32>().unwrap());
    assert_eq!(empty, Vec::<i32>::new());
    assert_eq!(other.view::<i32>().unwrap(), Vec::<[i32; 2]>::new());
}

#[test]
fn views_compare_elements_by_their_own_equality() {
    let tensor = Tensor::from([0.0, -0.0, f64::NAN]);
    let view = tensor.view::<f64>().unwrap();
    assert_ne!(view, view.clone());
    assert_eq!(view.slice(0, ..2).unwrap(), [-0.0, 0.0]);
}

#[test]
fn views_equal_the_containers_of_their_elements() {
    let mut tensor = Tensor::from([[1_u8, 2], [3, 4]]);
    let view = tensor.view_mut::<u8>().unwrap();
    assert_eq!(view, [[1, 2], [3, 4]]);
    assert_eq!(view, vec![[1, 2], [3, 4]]);
    assert_eq!(view, &[[1, 2], [3, 4]][..]);
    assert_eq!(view, [[1, 2], [3, 4]][..]);
    assert_eq!(view, view.as_view());
    assert_eq!(view.as_view(), view);
    assert_ne!(view, [[1, 2], [3, 5]]);
    assert_ne!(view, [1, 2, 3, 4]);
    assert_eq!(Tensor::from([true, false]).view::<bool>().unwrap(), [true, false]);
}

#[test]
fn index_as_number_tuple_or_array_reaches_the_same_element() {
    let mut tensor = Tensor::from([[1, 2], [3, 4]]);
    let view = tensor.view::<i32>().unwrap();
    assert_eq!((view[(1, 0)], view[[1, 0]], view.index_axis(0, 1).unwrap()[0]), (3, 3, 3));
    let index = vec![1, 0];
    assert_eq!(view.get([1, 0]), view.get(&index));
    assert_eq!(view.get(index), Some(&3));
    assert_eq!(view.get(vec![1, 2]), None);
    let six = view.reshape([1, 1, 2, 1, 2, 1]).unwrap();
    assert_eq!(six[(0, 0, 1, 0, 1, 0)], 4);
    let mut view = tensor.view_mut::<i32>().unwrap();
    view[(0, 1)] = 20;
    *view.get_mut([1, 1]).unwrap() = 40;
    assert_eq!(view, [[1, 20], [3, 40]]);
    assert_eq!(view[(0, 1)], 20);
}

#[test]
#[should_panic(expected = "index [0] is outside of shape [2, 2]")]
fn index_with_too_few_numbers_panics() {
    let _ = Tensor::from([[1, 2], [3, 4]]).view::<i32>().unwrap()[0];
}

#[test]
fn zeros_of_a_type_can_be_viewed_as_that_type() {
    assert_eq!(Tensor::zeros::<f32>([2, 3]).unwrap().view::<f32>().unwrap(), [[0.0; 3]; 2]);
    assert_eq!(Tensor::zeros::<bool>([2]).unwrap().view::<bool>().unwrap(), [false; 2]);
    assert_eq!(Tensor::zeros::<u8>([3, 0]).unwrap().shape(), [3, 0]);
    let packed = Tensor::zeroed(DataType::UINT4, [3]).unwrap();
    assert_eq!(TensorRef::from(&packed).as_bytes().unwrap(), [0, 0]);
}

#[cfg(feature = "microfloat")]
#[test]
fn zeros_of_a_type_narrower_than_its_bytes_are_padded() {
    let tensor = Tensor::zeros::<microfloat::f4e2m1fn>([3]).unwrap();
    assert!(tensor.is_subbyte_padded());
    assert_eq!(tensor.view::<microfloat::f4e2m1fn>().unwrap().len(), 3);
}

#[test]
#[cfg_attr(miri, ignore = "allocations do not fail in Miri")]
fn zeros_and_copy_without_memory_have_their_own_messages() {
    let huge = usize::MAX >> 2;
    // A 32-bit program has memory for a few of these.
    let mut held = Vec::new();
    let error = loop {
        match Tensor::zeros::<u8>([huge]) {
            Ok(tensor) => held.push(tensor),
            Err(error) => break error,
        }
    };
    let text = format!("no memory for a tensor of {huge} bytes; request a smaller one");
    assert_eq!(error.to_string(), text);
    let repeated = TensorRef::from(&[1_u8]).broadcast_to([huge]).unwrap();
    let text = format!("no memory for a copy of {huge} bytes; copy a slice of the tensor");
    assert_eq!(repeated.to_copy().unwrap_err().to_string(), text);
}

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
