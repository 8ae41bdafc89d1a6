//! Every error can be met through the public API, and says what was wrong, the value found, and
//! what to do.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::Arc;

use common::{Nibble, Producer, take};
use dlbridge::{
    Access, DataType, DataTypeCode, Device, DeviceType, Error, RawParts, Tensor, TensorRef,
};

/// An allocator that has no gigabyte to give, however optimistic the system is.
struct Poor;

// SAFETY: forwards to the system's allocator, or has no memory left.
unsafe impl GlobalAlloc for Poor {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= 1 << 30 {
            return ptr::null_mut();
        }
        // SAFETY: the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the same contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Poor = Poor;

/// Every error with the text a user reads.
fn cases() -> Vec<(Error, Error, &'static str)> {
    let bytes = |shape: &[i64]| Producer::new(vec![0_u8; 8], shape);
    let import = |producer: Producer| producer.import().unwrap_err();
    let exported = |tensor: Tensor| tensor.into_raw_legacy().unwrap_err().1;
    let cuda = Device::new(DeviceType::CUDA, 1);
    let fp4 = DataType::FLOAT4_E2M1FN;
    let wrong = DataType::new(DataTypeCode::FLOAT4_E2M1FN, 8, 0);
    let shared = || bytes(&[2]).import().unwrap();
    vec![
        (
            take(ptr::null_mut()).unwrap_err(),
            Error::NullPointer { field: "the managed tensor" },
            "the managed tensor is NULL; the producer must set it",
        ),
        (
            import(bytes(&[2]).with(|p| p.tensor.shape = ptr::null_mut())),
            Error::NullPointer { field: "the shape of a tensor with dimensions" },
            "the shape of a tensor with dimensions is NULL; the producer must set it",
        ),
        (
            import(bytes(&[2]).with(|p| p.tensor.data = ptr::null_mut())),
            Error::NullPointer { field: "the data of a tensor with elements" },
            "the data of a tensor with elements is NULL; the producer must set it",
        ),
        (
            take(ptr::without_provenance_mut(0x1001)).unwrap_err(),
            Error::MisalignedStruct { address: 0x1001 },
            "the managed tensor at 0x1001 is misaligned; pass the pointer the producer gave",
        ),
        (
            import(bytes(&[2]).with(|p| (p.version.major, p.version.minor) = (2, 7))),
            Error::Version { major: 2, minor: 7 },
            "the managed tensor is of DLPack version 2.7, whose layout is unknown; ask the producer for \
             version 1",
        ),
        (
            import(bytes(&[2]).with(|p| p.tensor.ndim = -3)),
            Error::InvalidNdim { ndim: -3 },
            "ndim is -3; it must be 0 to 1024",
        ),
        (
            import(bytes(&[2, -5])),
            Error::NegativeExtent { axis: 1, extent: -5 },
            "the extent of axis 1 is -5; give its number of elements",
        ),
        (
            import(bytes(&[2]).with(|p| p.tensor.dtype = wrong.into())),
            Error::InvalidDataType { dtype: wrong },
            "dtype with code 17, 8 bits and 0 lanes cannot exist; a dtype has the width its code \
             demands, and at least one lane",
        ),
        (
            "gpu:0".parse::<Device>().unwrap_err(),
            Error::UnknownDeviceName,
            "not the name of a device; write one like 'cpu' or 'cuda:0'",
        ),
        (
            "float3_2".parse::<DataType>().unwrap_err(),
            Error::UnknownDataTypeName,
            "not the name of a dtype; write one like 'float32', 'float8_e4m3fn' or 'bfloat16x2'",
        ),
        (
            import(bytes(&[2]).strides(&[i64::MIN])),
            Error::TooLarge,
            "the tensor spans more than the address space; check shape and strides",
        ),
        (
            bytes(&[1 << 30]).strides(&[0]).import().unwrap().to_copy().unwrap_err(),
            Error::OutOfMemory { bytes: 1 << 30, for_copy: true },
            "no memory for a copy of 1073741824 bytes; copy a slice of the tensor",
        ),
        (
            Tensor::from_parts(vec![0_u8; 5], [2, 3]).unwrap_err(),
            Error::ElementCount { shape: 6, owner: 5 },
            "the shape has 6 elements but there are 5; they must be equal",
        ),
        (
            TensorRef::from(&[1, 2]).flip(1).unwrap_err(),
            Error::InvalidAxis { axis: 1, ndim: 1 },
            "there is no axis 1 in 1 dimensions; count axes from 0",
        ),
        (
            TensorRef::from(&[[1, 2]]).permute([1, 1]).unwrap_err(),
            Error::RepeatedAxis { axis: 1 },
            "axis 1 is named twice; name each axis once",
        ),
        (
            TensorRef::from(&[1, 2]).slice(0, 1..4).unwrap_err(),
            Error::InvalidRange { axis: 0, start: 1, end: 4, extent: 2 },
            "indices 1..4 are no range on axis 0, whose extent is 2; begin before the end, and stay within 0..2",
        ),
        (
            TensorRef::from(&[[1, 2], [3, 4]]).transpose().reshape([4]).unwrap_err(),
            Error::NotReshapable,
            "no strides can give these elements that shape; copy the tensor first",
        ),
        (
            bytes(&[2])
                .with(|p| p.tensor.dtype = fp4.into())
                .import()
                .and_then(|tensor| TensorRef::from(&tensor).to_byte_swapped())
                .unwrap_err(),
            Error::NoByteOrder { dtype: fp4 },
            "numbers of dtype float4_e2m1fn are not whole bytes, so no byte order can be changed; copy the \
             tensor as it is",
        ),
        (
            Tensor::from_bytes(vec![0; 9], DataType::FLOAT32, [2], 2).unwrap_err(),
            Error::ByteCount { needed: 10, available: 9 },
            "the elements end at byte 10 but there are 9 bytes; change shape, dtype or offset",
        ),
        (
            Tensor::from(vec![0_u8]).view_subbyte().unwrap_err(),
            Error::NotSubbyte { dtype: DataType::UINT8 },
            "elements of uint8 are whole bytes, or have more than 64 bits, so there are no bits to view, pack or \
             unpack; take the tensor as it is",
        ),
        (
            Tensor::from_parts_strided(vec![0_u8; 5], [2, 2], [1], 0).unwrap_err(),
            Error::StridesLength { ndim: 2, strides: 1 },
            "1 strides for 2 dimensions; give one stride per dimension",
        ),
        (
            Tensor::from_parts_strided(vec![0_u8; 5], [4], [-3], 5).unwrap_err(),
            Error::OutOfBounds { lowest: -4, highest: 5, owner: 5 },
            "the strides reach elements -4 to 5 but the owner has 5; change offset, shape or strides",
        ),
        (
            Tensor::from(vec![0_u8]).view::<i128>().unwrap_err(),
            Error::DataType { expected: DataType::INT128, found: DataType::UINT8 },
            "expected dtype int128, found uint8; ask for a view of that dtype",
        ),
        (
            bytes(&[2]).device(2, 1).import().unwrap().view::<u8>().unwrap_err(),
            Error::NotHostAccessible { device: cuda },
            "the data is on cuda:1, where the CPU cannot read it; copy it to the CPU first",
        ),
        (
            // SAFETY: nothing is read, because the view is refused.
            unsafe { Tensor::from_raw_parts((), misaligned(), &[2_i64], None::<&[i64]>) }
                .and_then(|tensor| tensor.view::<u32>().map(drop))
                .unwrap_err(),
            Error::Misaligned { address: 0x1002, required: 4 },
            "the data at 0x1002 is not aligned to 4 bytes; copy the tensor, or view it as Unaligned \
             elements",
        ),
        (
            bytes(&[8])
                .with(|p| p.tensor.dtype = fp4.into())
                .import()
                .and_then(|tensor| tensor.view::<Nibble>().map(drop))
                .unwrap_err(),
            Error::SubbytePacked { dtype: fp4 },
            "the float4_e2m1fn elements are packed, several in a byte: none can be viewed alone, and no part \
             can begin or end within a byte; see Tensor::view_subbyte and Tensor::to_unpacked",
        ),
        (
            Producer::new(vec![7_u8], &[1])
                .with(|p| p.tensor.dtype = DataType::BOOL.into())
                .import()
                .and_then(|tensor| tensor.view::<bool>().map(drop))
                .unwrap_err(),
            Error::InvalidElement { dtype: DataType::BOOL },
            "an element is no valid bool; view the bytes instead, or mend the data",
        ),
        (
            Tensor::from(&[0_u8][..]).view_mut::<u8>().unwrap_err(),
            Error::ReadOnly,
            "the data is read-only; copy the tensor to write it",
        ),
        (
            shared().view_mut::<u8>().unwrap_err(),
            Error::Shared,
            "the data is shared with its producer, so it cannot be borrowed mutably; copy the tensor, \
             or see Tensor::assume_exclusive",
        ),
        (
            Tensor::from_parts_strided(vec![0_u8], [2], [0], 0)
                .and_then(|mut tensor| tensor.view_mut::<u8>().map(drop))
                .unwrap_err(),
            Error::Overlapping,
            "elements may overlap with these strides; copy the tensor to write it",
        ),
        (
            bytes(&[8]).import().unwrap().check_stable().unwrap_err(),
            Error::Unstable { access: Access::Shared },
            "the tensor is shared: its producer and other consumers may write the data, so slices of it \
             cannot be kept; copy the tensor first, or promise that nobody writes with the unsafe \
             Tensor::assume_immutable",
        ),
        (
            bytes(&[8]).import().unwrap().into_read_only().check_stable().unwrap_err(),
            Error::Unstable { access: Access::ReadOnly },
            "the tensor is read-only: its consumers must not write the data, but its producer may, so slices \
             of it cannot be kept; copy the tensor first, or promise that nobody writes with the unsafe \
             Tensor::assume_immutable",
        ),
        (
            Tensor::from_parts_strided(vec![0_u8; 3], [2], [2], 0)
                .and_then(|tensor| tensor.view::<u8>().and_then(<&[u8]>::try_from).map(drop))
                .unwrap_err(),
            Error::NotContiguous,
            "the elements are not adjacent in C order; copy the tensor first",
        ),
        (
            Tensor::from([[0_u8; 2]]).permute([0]).unwrap_err(),
            Error::AxisCount { given: 1, ndim: 2 },
            "1 axes are given for 2 dimensions; give each axis once, and for a broadcast at least as many",
        ),
        (
            Arc::new(Tensor::from(&[0_u8][..])).lend_legacy().unwrap_err(),
            Error::LegacyReadOnly,
            "read-only data cannot be lent in a legacy managed tensor, which has no flag to say so; \
             export the versioned one, or a copy",
        ),
        (
            exported(bytes(&[2]).with(|p| p.tensor.dtype = fp4.into()).flags(4).import().unwrap()),
            Error::LegacySubbytePadded,
            "padded sub-byte elements cannot be lent in a legacy managed tensor, which has no flag to \
             say so; export the versioned one",
        ),
        #[cfg(feature = "ndarray")]
        (
            ndarray::ArrayView2::try_from(Tensor::from(vec![0_u8]).view::<u8>().unwrap())
                .unwrap_err(),
            Error::Ndim { expected: 2, found: 1 },
            "expected 2 dimensions, found 1; reshape the tensor",
        ),
        #[cfg(feature = "image")]
        (
            image::ImageBuffer::<image::Rgb<u8>, _>::try_from(
                Tensor::from([[[0_u8; 4]]]).view::<u8>().unwrap(),
            )
            .unwrap_err(),
            Error::Extent { axis: 2, expected: 3, found: 4 },
            "expected extent 3 on axis 2, found 4; permute or reshape the tensor",
        ),
        #[cfg(all(feature = "image", target_pointer_width = "64"))]
        (
            image::ImageBuffer::<image::Luma<u8>, _>::try_from(
                bytes(&[1 << 32, 0]).import().unwrap().view::<u8>().unwrap(),
            )
            .unwrap_err(),
            Error::ExtentLimit { axis: 0, limit: 4_294_967_295, found: 4_294_967_296 },
            "the extent of axis 0 is 4294967296, over the limit of 4294967295; take a part",
        ),
    ]
}

/// Four-byte elements at an address that fits two.
fn misaligned() -> RawParts {
    RawParts::new(ptr::without_provenance_mut(0x1002), DataType::UINT32)
}

#[test]
fn every_error_says_what_was_wrong_and_what_to_do() {
    for (found, expected, text) in cases() {
        assert_eq!(found, expected);
        assert_eq!(found.to_string(), text);
        let boxed: Box<dyn std::error::Error + Send + Sync> = found.into();
        assert_eq!(boxed.to_string(), text);
    }
}

/// The core says it nowhere: crates over libraries that want this order do, and test when.
#[test]
fn the_error_of_adapter_crates_has_a_text_too() {
    assert_eq!(
        Error::NotFortranContiguous.to_string(),
        "the elements are not adjacent in Fortran order; take the transpose if they are in C order, or \
         copy the tensor"
    );
}

/// The enumeration is open, so the compiler cannot tell whether the cases are all of them.
#[test]
#[cfg(all(feature = "ndarray", feature = "image", target_pointer_width = "64"))]
fn no_error_is_missing_here() {
    use std::collections::BTreeSet;

    let source = include_str!("../src/error.rs");
    let body = source.split_once("pub enum Error {").unwrap().1.split_once("\n}").unwrap().0;
    let variant = |line: &'static str| {
        let name = line.strip_prefix("    ")?.split([' ', ',']).next()?;
        name.starts_with(|c: char| c.is_ascii_uppercase()).then(|| name.to_string())
    };
    let declared: BTreeSet<String> = body.lines().filter_map(variant).collect();
    let name = |error: Error| format!("{error:?}").split(' ').next().unwrap().to_string();
    let mut met: BTreeSet<String> = cases().into_iter().map(|case| name(case.0)).collect();
    met.insert(name(Error::NotFortranContiguous));
    assert!(declared.len() > 20, "{declared:?}");
    assert_eq!(met, declared);
}
