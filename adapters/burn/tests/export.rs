//! Tensors of burn become tensors: the same memory, the same values.

use burn_flex::{FlexTensor, Layout};
use burn_std::{BoolStore, Bytes, DType, Shape};
use burn_tensor::{Device, Int, Tensor as Burn};
use dlbridge::{Access, DataType, Element};
use dlbridge_burn::{BurnExt, Error, TensorExt};
use dlbridge_testing::through_c;
use half::{bf16, f16};

fn flex(bytes: Bytes, shape: &[usize], dtype: DType) -> FlexTensor {
    FlexTensor::new(bytes, Layout::contiguous(Shape::from(shape.to_vec())), dtype)
}

fn address(flex: &FlexTensor) -> usize {
    flex.bytes().as_ptr().addr() + flex.layout().start_offset() * flex.dtype().size()
}

/// Six numbers in two rows.
fn rows() -> FlexTensor {
    flex(Bytes::from_elems(vec![0_i32, 1, 2, 3, 4, 5]), &[2, 3], DType::I32)
}

#[test]
fn every_dtype_is_exported_in_place() {
    fn one<T: Element + PartialEq + std::fmt::Debug>(
        bytes: Bytes,
        values: [T; 4],
        (burn, dlpack): (DType, DataType),
    ) {
        let burn = flex(bytes, &[2, 2], burn);
        let (first, of_burn) = (address(&burn), burn.dtype());
        let tensor = burn.into_tensor().unwrap();
        assert_eq!((tensor.dtype(), tensor.data().addr()), (dlpack, first));
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 2][..], &[2, 1][..]));
        assert_eq!(tensor.view::<T>().unwrap().to_vec(), values);
        let access = if dlpack == DataType::BOOL { Access::Immutable } else { Access::Exclusive };
        assert_eq!(tensor.access(), access);
        let tensor = through_c(tensor);
        let back = tensor.into_flex().unwrap();
        assert_eq!((address(&back), back.dtype()), (first, of_burn));
        assert!(back.is_unique());
    }
    macro_rules! each {
        ($($values:expr => $burn:expr, $dlpack:ident;)*) => {
            $(one(Bytes::from_elems($values.to_vec()), $values, ($burn, DataType::$dlpack));)*
        };
    }
    each! {
        [1.0_f64, -2.0, 3.5, f64::MAX] => DType::F64, FLOAT64;
        [1.0_f32, -2.0, 3.5, f32::MAX] => DType::F32, FLOAT32;
        [1.0, -2.0, 3.5, 65504.0].map(f16::from_f32) => DType::F16, FLOAT16;
        [1.0, -2.0, 3.5, 1e38].map(bf16::from_f32) => DType::BF16, BFLOAT16;
        [1_i64, -2, 3, i64::MIN] => DType::I64, INT64;
        [1_i32, -2, 3, i32::MIN] => DType::I32, INT32;
        [1_i16, -2, 3, i16::MIN] => DType::I16, INT16;
        [1_i8, -2, 3, i8::MIN] => DType::I8, INT8;
        [1_u64, 2, 3, u64::MAX] => DType::U64, UINT64;
        [1_u32, 2, 3, u32::MAX] => DType::U32, UINT32;
        [1_u16, 2, 3, u16::MAX] => DType::U16, UINT16;
        [1_u8, 2, 3, u8::MAX] => DType::U8, UINT8;
        [true, false, false, true] => DType::Bool(BoolStore::Native), BOOL;
        [true, false, false, true] => DType::Bool(BoolStore::U8), BOOL;
    }
}

#[test]
fn dtypes_that_dlpack_lacks_are_refused_by_name() {
    let quantised = DType::QFloat(Default::default());
    for dtype in [DType::Flex32, DType::Bool(BoolStore::U32), quantised] {
        let error = flex(Bytes::from_elems(vec![0_u32; 4]), &[4], dtype).into_tensor().unwrap_err();
        assert_eq!(error, Error::DType { dtype });
        assert!(error.to_string().contains(&format!("{dtype:?}")), "{error}");
    }
}

#[test]
fn any_strides_of_burn_are_kept() {
    let out = |strides: &[isize], offset, shape: &[usize], expected: &[i32]| {
        let layout = Layout::new(Shape::from(shape.to_vec()), strides.to_vec(), offset);
        let burn = rows().with_layout(layout.clone());
        let first = address(&burn);
        let tensor = burn.into_tensor().unwrap();
        assert_eq!(tensor.data().addr(), first);
        let strides: Vec<i64> = strides.iter().map(|&stride| stride as i64).collect();
        assert_eq!(tensor.strides(), strides);
        assert_eq!(tensor.view::<i32>().unwrap().to_vec(), expected);
        let back = tensor.into_flex().unwrap();
        assert_eq!((address(&back), back.layout()), (first, &layout));
    };
    out(&[1, 3], 0, &[3, 2], &[0, 3, 1, 4, 2, 5]);
    out(&[-3, 1], 3, &[2, 3], &[3, 4, 5, 0, 1, 2]);
    out(&[-3, -1], 5, &[2, 3], &[5, 4, 3, 2, 1, 0]);
    out(&[3, 2], 0, &[2, 2], &[0, 2, 3, 5]);
    out(&[0, 1], 1, &[2, 2], &[1, 2, 1, 2]);
    out(&[], 4, &[], &[4]);
}

#[test]
fn shared_burn_tensor_becomes_read_only() {
    let burn = rows();
    let mut other = burn.clone();
    let tensor = burn.into_tensor().unwrap();
    assert_eq!(tensor.access(), Access::Immutable);
    other.storage_mut::<i32>()[0] = 100;
    assert_eq!(tensor.view::<i32>().unwrap()[[0, 0]], 0, "burn copied before it wrote");
    // The other tensor now has bytes of its own.
    assert_eq!(
        tensor.try_into_owner::<FlexTensor>().unwrap().into_tensor().unwrap().access(),
        Access::Exclusive
    );
    let weak = rows();
    let pointer = std::sync::Arc::downgrade(&weak.data_arc());
    assert!(weak.into_tensor().unwrap().is_read_only(), "the weak handle still reaches the bytes");
    drop(pointer);
}

#[test]
fn exclusive_tensor_is_written_in_place() {
    let mut tensor = rows().into_tensor().unwrap();
    let first = tensor.data().addr();
    tensor.view_mut::<i32>().unwrap()[[1, 2]] = 50;
    let burn: Burn<2, Int> = tensor.into_burn().unwrap();
    assert_eq!(burn.clone().into_data().try_to_vec::<i32>().unwrap(), [0, 1, 2, 3, 4, 50]);
    assert_eq!(burn.into_tensor().unwrap().data().addr(), first);
}

#[test]
fn layouts_that_lead_outside_are_refused() {
    let wrong = |strides: &[isize], offset| {
        let layout = Layout::new(Shape::from(vec![2, 3]), strides.to_vec(), offset);
        rows().with_layout(layout).into_tensor().unwrap_err()
    };
    let out = |lowest, highest| dlbridge::Error::OutOfBounds { lowest, highest, owner: 6 };
    assert_eq!(wrong(&[3, 1], 1), Error::Tensor(out(1, 6)));
    assert_eq!(wrong(&[-3, 1], 2), Error::Tensor(out(-1, 4)));
    assert_eq!(wrong(&[isize::MAX, 2], 0), Error::Tensor(dlbridge::Error::TooLarge));
}

#[test]
fn tensors_without_elements() {
    for shape in [&[0][..], &[3, 0], &[0, 2]] {
        let tensor = FlexTensor::empty(Shape::from(shape.to_vec()), DType::F32).into_tensor();
        let tensor = tensor.unwrap();
        assert!(tensor.data().is_null() && tensor.is_empty());
        assert_eq!(tensor.into_flex().unwrap().layout().shape().to_vec(), shape);
    }
}

#[test]
fn computed_and_moved_burn_tensors_are_exported() {
    let burn = Burn::<2>::from_floats([[1.0, 2.0], [3.0, 4.0]], &Device::flex());
    let product = burn.clone().matmul(burn.transpose()).flip([0]);
    let tensor = std::thread::spawn(move || product.into_tensor().unwrap()).join().unwrap();
    assert_eq!(tensor.view::<f32>().unwrap().to_vec(), [11.0, 25.0, 5.0, 11.0]);
}

#[test]
#[cfg_attr(miri, ignore = "Miri opens no files")]
fn bytes_that_burn_cannot_read_are_refused() {
    let file = std::env::temp_dir().join(format!("dlbridge-burn-{}", std::process::id()));
    let of_file = || flex(Bytes::from_file(&file, 8, 0), &[2], DType::I32);
    let error = of_file().into_tensor().unwrap_err();
    assert!(matches!(&error, Error::Unreadable { message } if !message.is_empty()), "{error}");
    let burn: Burn<1, Int> = Burn::from_primitive::<burn_flex::Flex>(of_file());
    assert!(matches!(burn.into_tensor().unwrap_err(), Error::Unreadable { .. }));
    std::fs::write(&file, [5_i32.to_ne_bytes(), 6_i32.to_ne_bytes()].concat()).unwrap();
    let tensor = of_file().into_tensor();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(tensor.unwrap().view::<i32>().unwrap().to_vec(), [5, 6]);
}

#[test]
fn tensor_tracked_for_gradients_is_refused_until_inner() {
    let tracked = Burn::<1>::from_floats([1.0, 2.0], &Device::flex().autodiff());
    let error = tracked.clone().into_tensor().unwrap_err();
    assert!(matches!(&error, Error::NotFlex { message } if !message.is_empty()), "{error}");
    assert!(error.to_string().contains("inner()"), "{error}");
    let inner = tracked.inner();
    let first = address(&inner.clone().try_into_primitive::<burn_flex::Flex>().unwrap());
    let tensor = inner.into_tensor().unwrap();
    assert_eq!(tensor.data().addr(), first);
    assert_eq!(tensor.view::<f32>().unwrap().to_vec(), [1.0, 2.0]);
}
