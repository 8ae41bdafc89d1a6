//! The public API can return every error. Each message has the fault, the value found, and what to do.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use common::{Nibble, Producer, take};
use dlbridge::{
    Access, DataType, DataTypeCode, Device, DeviceType, Error, RawParts, Tensor, TensorRef,
};

/// An allocator that refuses allocations of a gigabyte, even if the system would grant them.
struct Poor;

// SAFETY: forwards to the system's allocator, or returns NULL, as for exhausted memory.
unsafe impl GlobalAlloc for Poor {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= 1 << 30 {
            return ptr::null_mut();
        }
        // SAFETY: the caller guarantees the same for this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees the same for this function, and `alloc` returned the memory of `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Poor = Poor;

/// Every error with its text for users.
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
            "no dtype has code 17, 8 bits and 0 lanes; use a width that the code allows, and at least one lane",
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
            Tensor::zeroed(DataType::UINT8, [1 << 30]).unwrap_err(),
            Error::OutOfMemory { bytes: 1 << 30, for_copy: false },
            "no memory for a tensor of 1073741824 bytes; request a smaller one",
        ),
        (
            Tensor::from_parts(vec![0_u8; 5], [2, 3]).unwrap_err(),
            Error::ElementCount { shape: 6, owner: 5 },
            "the shape has 6 elements, but there are 5; pass a shape with 5",
        ),
        (
            TensorRef::from(&[1, 2]).flip(1).unwrap_err(),
            Error::InvalidAxis { axis: 1, ndim: 1 },
            "axis 1 is out of range for 1 dimension; count axes from 0",
        ),
        (
            TensorRef::from(&[[1, 2]]).permute([1, 1]).unwrap_err(),
            Error::RepeatedAxis { axis: 1 },
            "axis 1 is named twice; name each axis once",
        ),
        (
            TensorRef::from(&[1, 2]).slice(0, 1..4).unwrap_err(),
            Error::InvalidRange { axis: 0, start: 1, end: 4, extent: 2 },
            "indices 1..4 are not a range on axis 0, whose extent is 2; begin before the end, and stay within 0..2",
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
             tensor with to_copy",
        ),
        (
            Tensor::from_bytes(vec![0; 9], DataType::FLOAT32, [2], 2).unwrap_err(),
            Error::ByteCount { needed: 10, available: 9 },
            "the elements end at byte 10 but there are 9 bytes; change shape, dtype or offset",
        ),
        (
            Tensor::from(vec![0_u8]).view_subbyte().unwrap_err(),
            Error::NotSubbyte { dtype: DataType::UINT8 },
            "elements of uint8 cannot be viewed as bits, packed or unpacked, because they are whole bytes or have more than \
             64 bits; use Tensor::view for whole bytes",
        ),
        (
            Tensor::from_parts_strided(vec![0_u8; 5], [2, 2], [1], 0).unwrap_err(),
            Error::StridesLength { ndim: 2, strides: 1 },
            "1 stride for 2 dimensions; give one stride per dimension",
        ),
        (
            Tensor::from_parts_strided(vec![0_u8; 5], [4], [-3], 5).unwrap_err(),
            Error::OutOfBounds { lowest: -4, highest: 5, owner: 5 },
            "the strides reach elements -4 to 5 but the owner has 5 elements; change offset, shape or strides",
        ),
        (
            Tensor::from(vec![0_u8]).view::<i128>().unwrap_err(),
            Error::DataType { expected: DataType::INT128, found: DataType::UINT8 },
            "expected dtype int128, found uint8; request elements of dtype uint8",
        ),
        (
            bytes(&[2]).device(2, 1).import().unwrap().view::<u8>().unwrap_err(),
            Error::NotHostAccessible { device: cuda },
            "the data is on cuda:1, where the CPU cannot read it; copy it to the CPU first",
        ),
        (
            // SAFETY: no code reads the data, because the view is refused.
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
            "the float4_e2m1fn elements are packed, several in a byte: none can be viewed alone, and no slice \
             can begin or end within a byte; read them with Tensor::view_subbyte, or copy them with \
             Tensor::to_unpacked",
        ),
        (
            Producer::new(vec![7_u8], &[1])
                .with(|p| p.tensor.dtype = DataType::BOOL.into())
                .import()
                .and_then(|tensor| tensor.view::<bool>().map(drop))
                .unwrap_err(),
            Error::InvalidElement { dtype: DataType::BOOL },
            "an element is not a valid bool; view the bytes instead, or repair the data",
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
             or promise that no other code uses it (unsafe Tensor::assume_exclusive)",
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
            "the tensor is shared: its producer and other consumers may write the data, so safe code \
             cannot keep slices of it; copy the tensor first, or promise that no code writes it (unsafe \
             Tensor::assume_immutable)",
        ),
        (
            bytes(&[8]).import().unwrap().into_read_only().check_stable().unwrap_err(),
            Error::Unstable { access: Access::ReadOnly },
            "the tensor is read-only: its consumers must not write the data, but its producer may, so safe \
             code cannot keep slices of it; copy the tensor first, or promise that no code writes it (unsafe \
             Tensor::assume_immutable)",
        ),
        (
            Tensor::from_parts_strided(vec![0_u8; 3], [2], [2], 0)
                .and_then(|tensor| tensor.view::<u8>().and_then(<&[u8]>::try_from).map(drop))
                .unwrap_err(),
            Error::NotContiguous,
            "the elements are not contiguous in C order; copy the tensor first",
        ),
        (
            Tensor::from([[0_u8; 2]]).permute([0]).unwrap_err(),
            Error::AxisCount { given: 1, ndim: 2 },
            "found 1 axis for 2 dimensions; a permutation needs each axis once, a broadcast at least 2 extents",
        ),
        (
            Tensor::from(&[0_u8][..]).into_shared().to_raw_legacy().unwrap_err(),
            Error::LegacyReadOnly,
            "read-only data cannot be exported in a legacy managed tensor, which lacks a flag for it; \
             export the versioned one, or a copy",
        ),
        (
            exported(bytes(&[2]).with(|p| p.tensor.dtype = fp4.into()).flags(4).import().unwrap()),
            Error::LegacySubbytePadded,
            "padded sub-byte elements cannot be exported in a legacy managed tensor, which lacks a flag for \
             it; export the versioned one",
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
            "the extent of axis 0 is 4294967296, over the limit of 4294967295; slice the tensor",
        ),
    ]
}

/// Describes four-byte elements at an address that is aligned to two.
fn misaligned() -> RawParts {
    RawParts::new(ptr::without_provenance_mut(0x1002), DataType::UINT32)
}

#[test]
fn every_error_has_its_text() {
    for (found, expected, text) in cases() {
        assert_eq!(found, expected);
        assert_eq!(found.to_string(), text);
        let boxed: Box<dyn std::error::Error + Send + Sync> = found.into();
        assert_eq!(boxed.to_string(), text);
    }
}

/// Only adapter crates, whose libraries need Fortran order, return this error, and test when.
#[test]
fn error_of_adapter_crates_has_its_text() {
    assert_eq!(
        Error::NotFortranContiguous.to_string(),
        "the elements are not contiguous in Fortran order; take the transpose if they are in C order, or \
         copy the tensor"
    );
}

/// The names of the variants as they are declared. The enumeration is open, so the compiler cannot check that
/// the cases are complete.
#[cfg(all(feature = "ndarray", feature = "image", target_pointer_width = "64"))]
fn declared() -> Vec<&'static str> {
    let source = include_str!("../src/error.rs");
    let body = source.split_once("pub enum Error {").unwrap().1.split_once("\n}").unwrap().0;
    let variant = |line: &'static str| {
        let name = line.strip_prefix("    ")?.split([' ', ',']).next()?;
        name.starts_with(|c: char| c.is_ascii_uppercase()).then_some(name)
    };
    body.lines().filter_map(variant).collect()
}

/// The page with the errors.
// Not under Miri, for which a page is long: nothing here is unsafe.
#[cfg(all(feature = "ndarray", feature = "image", target_pointer_width = "64", not(miri)))]
mod page {
    use std::collections::BTreeSet;
    use std::{env, fs};

    use super::*;

    const TEXT: &str = include_str!("../../../docs/troubleshooting.md");
    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/troubleshooting.md");
    const ERRORS: &str = "| variant | message | in Python |\n| --- | --- | --- |\n";
    const CAUSES: &str = "| variant | cause and fix |\n| --- | --- |\n";

    /// The page before a table, its rows, and the page after it.
    fn table(heading: &str) -> (&str, &str, &str) {
        let (before, rest) = TEXT.split_once(heading).expect("the page has the table");
        let (rows, after) = rest.split_at(rest.find("\n\n").unwrap() + 1);
        (before, rows, after)
    }

    /// The rows for a variant: one for each of its texts.
    fn rows(variant: &str) -> String {
        let errors = cases().into_iter().map(|case| case.0).chain([Error::NotFortranContiguous]);
        let name = |error: &Error| format!("{error:?}").split(' ').next().unwrap() == variant;
        // `core_error_classes` in `tests/arguments` checks the classes.
        let class = |error: &Error| match error {
            Error::OutOfMemory { .. } => "MemoryError",
            _ => "BufferError",
        };
        let row = |error| format!("| `{variant}` | {error} | `{}` |\n", class(&error));
        errors.filter(name).map(row).collect()
    }

    #[test]
    fn page_lists_every_error() {
        let declared = declared();
        assert!(declared.len() > 20, "{declared:?}");
        let found: Vec<String> = declared.iter().map(|variant| rows(variant)).collect();
        for (variant, rows) in declared.iter().zip(&found) {
            assert!(!rows.is_empty(), "no case returns Error::{variant}");
        }
        let (found, (before, rows, after)) = (found.concat(), table(ERRORS));
        if env::var_os("DLBRIDGE_WRITE_ERRORS").is_some() {
            fs::write(PATH, format!("{before}{ERRORS}{found}{after}")).unwrap();
            return;
        }
        assert_eq!(
            rows, found,
            "docs/troubleshooting.md differs; DLBRIDGE_WRITE_ERRORS=1 rewrites its table"
        );
    }

    #[test]
    fn page_explains_errors_that_exist() {
        let declared: BTreeSet<_> = declared().into_iter().collect();
        for row in table(CAUSES).1.lines() {
            let variant = row.split('`').nth(1).unwrap();
            assert!(declared.contains(variant), "{variant} is not an error");
        }
    }
}
