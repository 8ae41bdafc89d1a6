//! Conversions that copy only if they must, and report why.

use crate::common::{Count, Counted, Producer};
use dlbridge::{Access, CopyReason, DataType, Error, RawParts, Result, Tensor, TensorRef};

/// Converts a tensor. Asserts that the result has the same elements, in the same memory unless there is a reason to
/// copy, and that a copy drops the old owner.
#[track_caller]
fn converted(
    (tensor, dropped): (Tensor, Count),
    convert: impl Fn(Tensor) -> Result<(Tensor, Option<CopyReason>)>,
    reason: Option<CopyReason>,
) -> Tensor {
    let (data, shape) = (tensor.data(), tensor.shape().to_vec());
    let elements = tensor.view::<u32>().unwrap().to_vec();
    let (converted, why) = convert(tensor).unwrap();
    assert_eq!(why, reason);
    assert_eq!(converted.data() == data, reason.is_none() || elements.is_empty());
    assert_eq!(dropped.get(), usize::from(reason.is_some()));
    assert_eq!(
        (converted.shape(), converted.view::<u32>().unwrap().to_vec()),
        (&shape[..], elements)
    );
    if reason.is_some() {
        assert_eq!((converted.access(), converted.is_c_contiguous()), (Access::Exclusive, true));
    }
    converted
}

/// Returns six ascending numbers of a counted owner, in a layout.
fn counted(shape: &[usize], strides: &[isize], offset: usize) -> (Tensor, Count) {
    let (owner, dropped) = Counted::new((0..6).collect::<Vec<u32>>());
    (Tensor::from_parts_strided(owner, shape, strides, offset).unwrap(), dropped)
}

/// Returns a tensor that a producer exported.
fn lent(flags: u64) -> (Tensor, Count) {
    let producer = Producer::new(vec![1_u32, 2], &[2]).flags(flags);
    let deleted = producer.deleted();
    (producer.import().unwrap(), deleted)
}

#[test]
fn into_contiguous_copies_only_non_contiguous_elements() {
    let into = Tensor::into_contiguous;
    let reason = Some(CopyReason::NotContiguous);
    converted(counted(&[2, 3], &[3, 1], 0), into, None);
    converted(counted(&[1, 3], &[-9, 1], 2), into, None);
    converted(counted(&[0, 3], &[7, -7], 0), into, None);
    converted(lent(1), into, None);
    let copy = converted(counted(&[3, 2], &[1, 3], 0), into, reason);
    assert_eq!(copy.strides(), [2, 1]);
    converted(counted(&[6], &[-1], 5), into, reason);
    converted(counted(&[2, 2], &[0, 1], 1), into, reason);
    converted(counted(&[2], &[3], 0), into, reason);
}

#[test]
fn into_aligned_copies_only_misaligned_elements() {
    let aligned = |skip: usize, alignment| {
        // A copy begins at a multiple of 256 bytes, and each skipped element adds 4 bytes.
        let (owner, dropped) = Counted::new(Tensor::from([1_u32, 2, 3, 4]).to_copy().unwrap());
        let parts = RawParts::new(owner.owner.data(), DataType::UINT32);
        // SAFETY: the owner keeps the four numbers alive, and no other code has it.
        let tensor = unsafe { Tensor::from_raw_parts(owner, parts, &[4], None::<&[i64]>) };
        let part = tensor.unwrap().slice(0, skip..).unwrap();
        let address = part.data().addr();
        let misaligned = !address.is_multiple_of(alignment);
        let reason = misaligned.then_some(CopyReason::Misaligned { address, required: alignment });
        let tensor = converted((part, dropped), |t| t.into_aligned(alignment), reason);
        assert!(tensor.data().addr().is_multiple_of(alignment));
        misaligned
    };
    for (skip, largest) in [(0, 256), (1, 4), (2, 8), (3, 4)] {
        for alignment in (0..9).map(|power| 1 << power) {
            assert_eq!(aligned(skip, alignment), alignment > largest, "{skip}, {alignment}");
        }
    }
    converted(counted(&[0], &[1], 0), |t| t.into_aligned(256), None);
    // A handle cannot be aligned.
    let place = std::ptr::without_provenance_mut(0x1001);
    let remote = |device| {
        let producer = Producer::at(place, DataType::UINT32, &[2]);
        producer.device(device, 0).import().unwrap().into_aligned(16)
    };
    assert_eq!(remote(4).unwrap().1, None);
    assert!(matches!(remote(2).unwrap_err(), Error::NotHostAccessible { .. }));
}

#[test]
fn copy_aligned_to_pages_begins_at_one() {
    for alignment in [1, 512, 4096, 1 << 21] {
        let at = |tensor: &Tensor| tensor.data().addr() % alignment;
        let zeros = Tensor::zeroed_aligned(DataType::INT4, [3, 3], alignment).unwrap();
        assert_eq!(at(&zeros), 0);
        // Packed elements take another path.
        let columns = TensorRef::from(&zeros).transpose().to_aligned_copy(alignment).unwrap();
        assert_eq!((at(&columns), columns.shape()), (0, &[3, 3][..]));
        let numbers = Tensor::from([[1, 2], [3, 4]]).transpose();
        let (copy, _) = numbers.into_aligned(alignment).unwrap();
        assert_eq!(at(&copy), 0);
        let copied = TensorRef::from(&copy).to_aligned_copy(alignment).unwrap();
        assert_eq!((at(&copied), copied.view::<i32>().unwrap().to_vec()), (0, vec![1, 3, 2, 4]));
    }
}

#[test]
#[should_panic(expected = "cannot align to 24")]
fn alignment_that_is_not_a_power_of_two_panics() {
    let _ = Tensor::from([1]).into_aligned(24);
}

#[test]
fn into_exclusive_copies_only_data_that_cannot_be_written() {
    let into = Tensor::into_exclusive;
    converted(counted(&[3, 2], &[1, 3], 0), into, None);
    converted(lent(2), into, None);
    converted(counted(&[0, 3], &[0, 0], 0), into, None);
    converted(lent(0), into, Some(CopyReason::Shared));
    converted(lent(1), into, Some(CopyReason::ReadOnly));
    converted(lent(3), into, Some(CopyReason::ReadOnly));
    let (tensor, dropped) = counted(&[2, 3], &[0, 1], 0);
    let mut tensor = converted((tensor, dropped), into, Some(CopyReason::Overlapping));
    tensor.view_mut::<u32>().unwrap()[[1, 0]] = 9;
    assert_eq!(tensor.view::<u32>().unwrap().to_vec(), [0, 1, 2, 9, 1, 2]);
    let source = counted(&[6], &[1], 0).0.into_shared();
    let (copy, reason) = source.share().into_exclusive().unwrap();
    assert_eq!((copy.access(), reason), (Access::Exclusive, Some(CopyReason::ReadOnly)));
    assert!(source.try_into_tensor().is_ok(), "the copy holds nothing of its source");
}

#[test]
fn copy_reasons_are_displayed_as_sentences() {
    let told = |reason: CopyReason| reason.to_string();
    assert_eq!(told(CopyReason::NotContiguous), "the elements were not contiguous in C order");
    let misaligned = CopyReason::Misaligned { address: 0x1004, required: 16 };
    assert_eq!(told(misaligned), "the data at 0x1004 was not aligned to 16 bytes");
    assert_eq!(told(CopyReason::ReadOnly), "the data was read-only");
    assert_eq!(told(CopyReason::Shared), "the data was shared with its producer");
    assert_eq!(told(CopyReason::Overlapping), "elements may overlap with the strides it had");
}
