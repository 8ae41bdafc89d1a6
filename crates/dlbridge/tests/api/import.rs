//! Imports from a C producer: refusals with their errors, adaptations, and the deleter, which runs
//! exactly once on every path.

use std::ffi::c_void;
use std::ptr;

use crate::common::{
    Count, Producer, delete, delete_the_legacy, refused, take, take_legacy, through_both,
};
use dlbridge::sys::{
    DLDataType, DLDataTypeCode, DLManagedTensor, DLManagedTensorVersioned,
    DLManagedTensorVersionedDeleter, DLPackVersion,
};
use dlbridge::{Access, DataType, DataTypeCode, Device, DeviceType, Error, MAX_NDIM};

/// Returns an unmapped address, which no code may read.
fn nowhere(address: usize) -> *mut c_void {
    ptr::without_provenance_mut(address)
}

fn three_floats() -> Producer {
    Producer::new(vec![1.0_f32, 2.0, 3.0], &[3])
}

/// The fields that all versions of the struct have in common, and no more bytes.
#[repr(C)]
struct AnyVersion {
    version: DLPackVersion,
    manager_ctx: *mut c_void,
    deleter: Option<DLManagedTensorVersionedDeleter>,
    flags: u64,
}

unsafe extern "C" fn delete_any_version(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: the test below made it from a box, and the consumer calls this once.
    let managed = unsafe { Box::from_raw(managed.cast::<AnyVersion>()) };
    // SAFETY: the test below made the context from a box too, and this call is the only one.
    unsafe { Box::from_raw(managed.manager_ctx.cast::<Count>()) }.add_one();
}

#[test]
fn import_of_another_major_version_is_refused_without_reading_past_flags() {
    for (major, minor) in [(0, 0), (0, 8), (2, 0), (2, 3), (u32::MAX, u32::MAX)] {
        let deleted = Count::default();
        let managed = Box::into_raw(Box::new(AnyVersion {
            version: DLPackVersion { major, minor },
            manager_ctx: Box::into_raw(Box::new(deleted.clone())).cast(),
            deleter: Some(delete_any_version),
            flags: u64::MAX,
        }));
        assert_eq!(take(managed.cast()).unwrap_err(), Error::Version { major, minor });
        assert_eq!(deleted.get(), 1);
    }
}

#[test]
fn import_of_another_minor_version_succeeds() {
    for minor in [0, 2, 99] {
        let tensor = three_floats().with(|p| p.version.minor = minor).import().unwrap();
        assert_eq!(tensor.view::<f32>().unwrap().to_vec(), [1.0, 2.0, 3.0]);
    }
}

#[test]
fn import_of_null_or_misaligned_struct_is_refused_unread() {
    let null = Error::NullPointer { field: "the managed tensor" };
    assert_eq!(take(ptr::null_mut()).unwrap_err(), null);
    assert_eq!(take_legacy(ptr::null_mut()).unwrap_err(), null);

    let producer = three_floats();
    let (deleted, managed) = (producer.deleted(), producer.versioned());
    let askew = managed.wrapping_byte_add(2);
    assert_eq!(take(askew).unwrap_err(), Error::MisalignedStruct { address: askew.addr() });
    assert_eq!(deleted.get(), 0, "no deleter can be found there");
    delete(managed);

    let managed = three_floats().legacy();
    let askew = managed.wrapping_byte_add(1);
    assert_eq!(take_legacy(askew).unwrap_err(), Error::MisalignedStruct { address: askew.addr() });
    delete_the_legacy(managed);
}

#[test]
fn import_with_invalid_ndim_is_refused_before_any_extent_is_read() {
    for ndim in [-1, i32::MIN, MAX_NDIM as i32 + 1, i32::MAX] {
        let error = Error::InvalidNdim { ndim: ndim.into() };
        refused(|| three_floats().with(|p| p.tensor.ndim = ndim), error);
    }
    let most = || Producer::new(vec![7_u8], &[1; MAX_NDIM]);
    through_both(most, |tensor| {
        let tensor = tensor.unwrap();
        assert_eq!(tensor.ndim(), MAX_NDIM);
        assert_eq!(tensor.view::<u8>().unwrap().to_vec(), [7]);
    });
}

#[test]
fn import_null_shape_with_dimensions_is_refused() {
    let make = || three_floats().with(|p| (p.tensor.ndim, p.tensor.shape) = (2, ptr::null_mut()));
    refused(make, Error::NullPointer { field: "the shape of a tensor with dimensions" });
}

#[test]
fn import_null_strides_means_c_order() {
    let values: Vec<i16> = (0..24).collect();
    through_both(
        || Producer::new(values.clone(), &[2, 3, 4]),
        |tensor| {
            let tensor = tensor.unwrap();
            assert_eq!(tensor.strides(), [12, 4, 1]);
            assert!(tensor.is_c_contiguous());
            assert_eq!(tensor.view::<i16>().unwrap().to_vec(), values);
        },
    );
    let empty = || Producer::at(ptr::null_mut(), DataType::INT16, &[2, 0, 4]);
    through_both(empty, |tensor| assert_eq!(tensor.unwrap().strides(), [4, 4, 1]));
}

#[test]
fn import_scalar_without_shape_and_strides_succeeds() {
    let make = || Producer::new(vec![5_u64], &[]).with(|p| p.tensor.shape = ptr::null_mut());
    through_both(make, |tensor| {
        let tensor = tensor.unwrap();
        assert_eq!((tensor.ndim(), tensor.len(), tensor.nbytes()), (0, 1, 8));
        let view = tensor.view::<u64>().unwrap();
        assert_eq!((view[[]], view.get([]), view.as_slice()), (5, Some(&5), Some(&[5][..])));
    });
}

#[test]
fn import_impossible_shape_is_refused() {
    let float = |shape: &'static [i64]| move || Producer::at(nowhere(16), DataType::FLOAT32, shape);
    refused(float(&[-1]), Error::NegativeExtent { axis: 0, extent: -1 });
    refused(float(&[2, i64::MIN]), Error::NegativeExtent { axis: 1, extent: i64::MIN });
    refused(float(&[0, -1]), Error::NegativeExtent { axis: 1, extent: -1 });
    refused(float(&[i64::MAX, 2]), Error::TooLarge);
    refused(float(&[1 << 32, 1 << 32]), Error::TooLarge);
    // Two to the 64th: a product that wraps would be 0.
    refused(float(&[1 << 32, 1 << 32, 0]), Error::TooLarge);
    // The number of elements fits, the number of bytes does not.
    refused(float(&[i64::MAX / 2]), Error::TooLarge);
}

#[test]
fn import_strides_beyond_the_address_space_are_refused() {
    let bytes = |shape: &'static [i64], strides: &'static [i64]| {
        move || Producer::at(nowhere(1 << 20), DataType::UINT8, shape).strides(strides)
    };
    refused(bytes(&[3], &[i64::MAX]), Error::TooLarge);
    refused(bytes(&[3], &[i64::MIN]), Error::TooLarge);
    refused(bytes(&[2, 2], &[i64::MAX, i64::MAX]), Error::TooLarge);
    refused(bytes(&[2, 2], &[i64::MIN, i64::MIN]), Error::TooLarge);
    refused(bytes(&[2, 2], &[i64::MAX, i64::MIN + 1]), Error::TooLarge);
}

#[test]
fn import_byte_offset_beyond_all_memory_is_refused() {
    for device in [DeviceType::CPU, DeviceType::VULKAN] {
        let at = |offset: u64| {
            move || {
                Producer::at(nowhere(16), DataType::UINT8, &[2])
                    .byte_offset(offset)
                    .device(device.code(), 0)
            }
        };
        refused(at(1 << 63), Error::TooLarge);
        refused(at(u64::MAX - 3), Error::TooLarge);
    }
}

#[test]
fn import_extent_that_wraps_around_the_address_space_is_refused() {
    let at = |address: usize, stride: i64| {
        move || Producer::at(nowhere(address), DataType::UINT8, &[16]).strides(&[stride])
    };
    refused(at(usize::MAX - 8, 1), Error::TooLarge);
    refused(at(8, -1), Error::TooLarge);
    // Just inside the limit; no code reads the data.
    through_both(at(usize::MAX - 16, 1), |tensor| assert_eq!(tensor.unwrap().len(), 16));
    through_both(at(15, -1), |tensor| assert_eq!(tensor.unwrap().len(), 16));
}

#[test]
fn import_null_data_is_refused_unless_empty() {
    let null = |shape: &'static [i64]| move || three_floats_at_null(shape);
    refused(null(&[3]), Error::NullPointer { field: "the data of a tensor with elements" });
    refused(null(&[]), Error::NullPointer { field: "the data of a tensor with elements" });
    for address in [0, 4096] {
        let make = || {
            Producer::at(nowhere(address), DataType::FLOAT32, &[3, 0])
                .strides(&[i64::MIN, i64::MAX])
                .byte_offset(u64::MAX)
        };
        through_both(make, |tensor| {
            let tensor = tensor.unwrap();
            assert!(tensor.data().is_null() && tensor.is_empty());
            assert_eq!((tensor.byte_offset(), tensor.nbytes()), (0, 0));
            assert_eq!(tensor.strides(), [i64::MIN, i64::MAX]);
            let view = tensor.view::<f32>().unwrap();
            assert_eq!((view.as_slice(), view.iter().len()), (Some(&[][..]), 0));
            assert_eq!(tensor.to_copy().unwrap().shape(), [3, 0]);
        });
    }
}

fn three_floats_at_null(shape: &[i64]) -> Producer {
    Producer::at(ptr::null_mut(), DataType::FLOAT32, shape)
}

#[test]
fn import_byte_offset_is_added_to_an_address() {
    through_both(
        || Producer::new(vec![1.0_f32, 2.0, 3.0], &[2]).byte_offset(4),
        |tensor| {
            let tensor = tensor.unwrap();
            assert_eq!(tensor.byte_offset(), 0);
            assert_eq!(tensor.view::<f32>().unwrap().to_vec(), [2.0, 3.0]);
        },
    );
    // Also on a GPU, whose memory is never read here.
    let on = |device| Producer::at(nowhere(4096), DataType::UINT8, &[2]).device(device, 0);
    let tensor = on(DeviceType::CUDA.code()).byte_offset(64).import().unwrap();
    assert_eq!((tensor.data().addr(), tensor.byte_offset()), (4096 + 64, 0));
    refused(|| on(1).byte_offset(u64::MAX), Error::TooLarge);
}

#[test]
fn import_byte_offset_of_a_handle_is_kept() {
    use DeviceType as D;
    for device in [D::OPENCL, D::VULKAN, D::METAL, D::WEB_GPU, D::from_code(99)] {
        // A handle, not an address: adding a byte to it would wrap.
        let make = |byte_offset| {
            move || {
                Producer::at(nowhere(usize::MAX), DataType::UINT16, &[4])
                    .device(device.code(), 2)
                    .strides(&[-1])
                    .byte_offset(byte_offset)
            }
        };
        through_both(make(6), |tensor| {
            let tensor = tensor.unwrap();
            assert_eq!((tensor.data().addr(), tensor.byte_offset()), (usize::MAX, 6));
            assert_eq!(tensor.device(), Device::new(device, 2));
            let again = take(tensor.into_raw()).unwrap();
            assert_eq!((again.data().addr(), again.byte_offset()), (usize::MAX, 6));
        });
        refused(make(5), Error::TooLarge);
        refused(make(u64::MAX), Error::TooLarge);
    }
}

#[test]
fn import_impossible_dtype_is_refused() {
    let fp4 = DataTypeCode::FLOAT4_E2M1FN;
    for dtype in [
        DataType::new(DataTypeCode::FLOAT, 0, 1),
        DataType::new(DataTypeCode::FLOAT, 32, 0),
        DataType::new(DataTypeCode::BOOL, 0, 1),
        DataType::new(fp4, 8, 1),
        DataType::new(DataTypeCode::FLOAT8_E5M2, 16, 1),
        DataType::new(DataTypeCode::from_code(99), 8, 0),
    ] {
        let error = Error::InvalidDataType { dtype };
        refused(|| Producer::at(nowhere(16), dtype, &[2]), error);
        refused(|| Producer::at(ptr::null_mut(), dtype, &[0]), error);
    }
}

#[test]
fn import_unknown_dtype_and_device_are_kept() {
    let unknown = DLDataType { code: DLDataTypeCode(99), bits: 16, lanes: 1 };
    let make = || Producer::new(vec![1_u16, 2, 3], &[3]).with(|p| p.tensor.dtype = unknown);
    through_both(make, |tensor| {
        let tensor = tensor.unwrap();
        let found = DataType::from(unknown);
        assert_eq!((tensor.dtype(), tensor.nbytes()), (found, 6));
        let error = Error::DataType { expected: DataType::UINT16, found };
        assert_eq!(tensor.view::<u16>().unwrap_err(), error);
        assert_eq!(tensor.to_copy().unwrap().dtype(), found);
    });
    for (code, id) in [(99, 0), (-1, -1), (0, i32::MIN), (DeviceType::CUDA.code(), 1)] {
        let make =
            || Producer::at(nowhere(4096), DataType::FLOAT32, &[1 << 20]).device(code, id).flags(2);
        through_both(make, |tensor| {
            let mut tensor = tensor.unwrap();
            let device = Device::new(DeviceType::from_code(code), id);
            assert_eq!((tensor.device(), tensor.data().addr()), (device, 4096));
            let error = Error::NotHostAccessible { device };
            assert_eq!(tensor.view::<f32>().unwrap_err(), error);
            assert_eq!(tensor.to_copy().unwrap_err(), error);
            if tensor.access() == Access::Exclusive {
                assert_eq!(tensor.view_mut::<f32>().unwrap_err(), error);
            }
        });
    }
}

#[test]
fn import_pinned_memory_is_readable_and_unified_memory_is_not() {
    use DeviceType as D;
    let view = |device: D| {
        let lent = Producer::new(vec![1_u8, 2], &[1]).device(device.code(), 3).byte_offset(1);
        let tensor = lent.import().unwrap();
        assert_eq!(tensor.byte_offset(), 0, "added to the address");
        tensor.view::<u8>().map(|view| view[[0]])
    };
    for device in [D::CPU, D::CUDA_HOST, D::ROCM_HOST] {
        assert_eq!(view(device), Ok(2));
    }
    for device in [D::CUDA_MANAGED, D::ONE_API, D::CUDA, D::ROCM] {
        assert_eq!(view(device), Err(Error::NotHostAccessible { device: Device::new(device, 3) }));
    }
}

#[test]
fn import_without_a_deleter_frees_nothing() {
    let producer = three_floats();
    let (deleted, managed) = (producer.deleted(), producer.versioned());
    // SAFETY: `managed` was just exported, and no other code has it.
    let deleter = unsafe { (*managed).deleter.take() };
    assert_eq!(take(managed).unwrap().view::<f32>().unwrap().len(), 3);
    // SAFETY: the struct is not freed: without a deleter, the import has nothing to call.
    unsafe { ((*managed).version.major, (*managed).deleter) = (2, None) };
    assert_eq!(take(managed).unwrap_err(), Error::Version { major: 2, minor: 3 });
    assert_eq!(deleted.get(), 0);
    // SAFETY: the struct is still alive, and this call is the only one of its deleter.
    unsafe { deleter.unwrap()(managed) };

    let managed: *mut DLManagedTensor = three_floats().legacy();
    // SAFETY: `managed` was just exported, and no other code has it.
    let deleter = unsafe { (*managed).deleter.take() };
    assert_eq!(take_legacy(managed).unwrap().len(), 3);
    // SAFETY: the struct is still alive, and this call is the only one of its deleter.
    unsafe { deleter.unwrap()(managed) };
}
