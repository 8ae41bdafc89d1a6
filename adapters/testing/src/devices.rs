//! Tensors that the tests of devices copy to a device, and slices of them.

use dlbridge::{DataType, Element, Result, Tensor, TensorRef};

/// A float of four bits in a byte of its own.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Narrow(pub u8);

// SAFETY: a byte; every byte is a value of the type.
unsafe impl Element for Narrow {
    const DTYPE: DataType = DataType::FLOAT4_E2M1FN;
}

/// Returns the floats of a tensor on the host.
pub fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.view::<f32>().expect("floats on the host").to_vec()
}

/// Calls a test with each dtype that every device carries, and with the bytes of three packed elements.
pub fn for_each_dtype(mut test: impl FnMut(DataType, &[u8])) {
    let dtypes = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16 complex64 \
                  complex128 float8_e4m3fn float8_e5m2 float4_e2m1fn float6_e2m3fn int4 uint4 float32x4";
    for name in dtypes.split_whitespace() {
        let dtype: DataType = name.parse().expect("a dtype");
        let len = (dtype.element_bits() as usize * 3).div_ceil(8);
        test(dtype, &(1..=len as u8).collect::<Vec<u8>>());
    }
}

/// Asserts that a tensor on the host has a dtype, and exactly these bytes.
#[track_caller]
pub fn assert_bytes(host: &Tensor, dtype: DataType, bytes: &[u8]) {
    assert_eq!((host.dtype(), host.nbytes()), (dtype, bytes.len() as u128));
    assert_eq!(TensorRef::from(host).as_bytes().expect("contiguous"), bytes, "{dtype}");
}

/// Calls a test with tensors of floats without elements, with one, and with strides.
pub fn for_each_shape(test: impl Fn(&Tensor)) {
    test(&Tensor::zeroed(DataType::FLOAT32, [0, 3]).expect("a tensor"));
    test(&Tensor::from(vec![7.0_f32]).reshape([]).expect("a tensor"));
    test(&Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]).transpose());
}

/// A slice, its name, and its byte offset in a tensor of 2, 3 and 4 floats.
pub type Slice = (&'static str, fn(Tensor) -> Result<Tensor>, u64);

/// Slices that begin, end and step in every way.
pub const SLICES: [Slice; 9] = [
    ("slice", |t| t.slice(1, 1..3), 16),
    ("index", |t| t.index_axis(0, 1), 48),
    ("steps", |t| t.step_by(2, 2), 0),
    ("backwards", |t| t.flip(0)?.flip(2), 60),
    ("transposed", |t| Ok(t.transpose()), 0),
    ("slice of a transposed one", |t| t.transpose().slice(0, 1..3)?.flip(1), 36),
    ("one element", |t| t.index_axis(0, 1)?.index_axis(0, 2)?.index_axis(0, 3), 92),
    ("shared", |t| t.index_axis(0, 1)?.into_shared().share().slice(0, 1..2)?.index_axis(1, 3), 76),
    ("nothing", |t| t.slice(0, 1..1), 0),
];

/// Returns the tensor of 2, 3 and 4 floats that [`SLICES`] are of.
pub fn sliced() -> Tensor {
    let values: Vec<f32> = (0..24).map(|i| i as f32).collect();
    Tensor::from(values).reshape([2, 3, 4]).expect("24 elements")
}

/// Asserts that slices of a tensor on a device keep its handle, and have the elements of the same slices on the host.
#[track_caller]
pub fn assert_slices(to_device: impl Fn(&Tensor) -> Tensor, to_host: impl Fn(&Tensor) -> Tensor) {
    for (name, slice, byte_offset) in SLICES {
        let on_device = to_device(&sliced());
        let handle = on_device.data();
        let (on_device, host) = (slice(on_device).expect(name), slice(sliced()).expect(name));
        assert_eq!((on_device.shape(), on_device.strides()), (host.shape(), host.strides()));
        assert_eq!(on_device.byte_offset(), byte_offset, "{name}");
        assert!(on_device.is_empty() || on_device.data() == handle, "{name}");
        assert_eq!(numbers(&to_host(&on_device)), numbers(&host), "{name}");
    }
}
