//! Hostile descriptors. dlbridge refuses exactly those that the model refuses, reads the elements of the others at the
//! model's positions, in memory that ends where the layout ends, and calls each deleter once.
#![no_main]

use std::ffi::c_void;
use std::hint::black_box;

use arbitrary::Unstructured;
use dlbridge::{DataType, Element, Tensor, TensorRef};
use dlbridge_fuzz::{Descriptor, Producer, import_crafted};
use libfuzzer_sys::fuzz_target;

/// A larger layout gets no memory; its tensor is on a device whose memory is not read.
const MOST_BYTES: i128 = 512;

fuzz_target!(|data: &[u8]| {
    let mut u = Unstructured::new(data);
    if let Ok(mut descriptor) = Descriptor::arbitrary(&mut u) {
        descriptor.deleter = u.ratio(9, 10).unwrap_or(true);
        run(&mut descriptor);
    }
});

fn run(d: &mut Descriptor) {
    let extent = d.extent();
    if d.is_host_accessible() && extent.as_ref().is_some_and(|e| e.end - e.start > MOST_BYTES) {
        d.device = 4;
    }
    let producer = Producer::default();
    let in_memory = d.is_host_accessible() && extent.as_ref().is_some_and(|e| !e.is_empty());
    let (mut memory, mut bytes) = (Box::<[u8]>::default(), Vec::new());
    let mut pointer = std::ptr::without_provenance_mut::<c_void>(d.data);
    if let Some(extent) = extent.as_ref().filter(|_| in_memory) {
        d.byte_offset %= 64;
        bytes = (0..extent.end - extent.start).map(|n| (n * 37 + 11) as u8).collect();
        memory = bytes.clone().into_boxed_slice();
        let first = memory.as_mut_ptr().wrapping_offset(-extent.start as isize);
        pointer = first.wrapping_sub(d.byte_offset as usize).cast();
        d.data = pointer.addr();
    }
    let expected = extent.as_ref().is_some_and(|extent| d.is_placed(extent));
    match import_crafted(d, pointer, memory, &producer) {
        Err(error) => {
            assert!(!expected, "{error}: {d:?}");
            black_box(error.to_string());
            assert_eq!(producer.deleted(), usize::from(d.deleter));
        }
        Ok(tensor) => {
            assert!(expected, "{tensor:?}: {d:?}");
            assert_eq!(producer.deleted(), 0);
            tells_the_truth(&tensor, d);
            if d.is_host_accessible() {
                let start = extent.map_or(0, |extent| extent.start);
                reads_the_elements(&tensor, d, &bytes, start);
            }
            goes_round(tensor, &producer);
            assert_eq!(producer.deleted(), usize::from(d.deleter));
        }
    }
}

fn tells_the_truth(tensor: &Tensor, d: &Descriptor) {
    assert_eq!(tensor.shape(), d.shape.as_deref().filter(|_| d.ndim > 0).unwrap_or_default());
    assert_eq!(Some(tensor.len()), d.count());
    assert_eq!(tensor.is_empty(), d.count() == Some(0));
    let strides = tensor.strides().iter().map(|&stride| i128::from(stride));
    assert!(strides.eq(d.full_strides()));
    black_box((tensor.nbytes(), tensor.access(), tensor.flags(), format!("{tensor:?}")));
}

/// Returns the bytes of the element at a position, for elements that do not share bytes.
fn element<'a>(bytes: &'a [u8], d: &Descriptor, start: i128, position: i128) -> &'a [u8] {
    let first = (position * d.itemsize() - start) as usize;
    &bytes[first..first + d.itemsize() as usize]
}

fn reads_the_elements(tensor: &Tensor, d: &Descriptor, bytes: &[u8], start: i128) {
    fn typed<T: Element>(tensor: &Tensor, d: &Descriptor, bytes: &[u8], start: i128) {
        let Ok(view) = tensor.view::<T>() else { return };
        assert_eq!(tensor.dtype(), T::DATA_TYPE);
        let mut elements = view.iter();
        for position in d.positions() {
            let found = TensorRef::from(std::slice::from_ref(elements.next().unwrap()));
            assert_eq!(found.as_bytes().unwrap(), element(bytes, d, start, position));
        }
        assert!(elements.next().is_none());
        assert_eq!(view.to_vec().len(), view.len());
        black_box(view.as_slice().map(<[T]>::len));
    }
    // A few bytes may be exported as many elements: make each view, but do not read all elements.
    if tensor.len() > 64 {
        black_box((tensor.view::<u8>().is_ok(), tensor.view::<bool>().is_ok()));
        return;
    }
    macro_rules! all { ($($type:ty)*) => { $(typed::<$type>(tensor, d, bytes, start);)* }; }
    all!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 bool u128 dlbridge::Unaligned<f32>);
    if d.packed() {
        if let Ok(view) = tensor.view_subbyte() {
            let width = d.element_bits();
            for (position, found) in d.positions().into_iter().zip(view.iter()) {
                let bit = |n: i128| {
                    let byte = n.div_euclid(8) - start;
                    u64::from(bytes[byte as usize] >> n.rem_euclid(8) & 1)
                };
                let expected: u64 = (0..width).map(|n| bit(position * width + n) << n).sum();
                assert_eq!(found, expected);
            }
            let copy = tensor.to_unpacked().unwrap().to_packed().unwrap();
            assert!(copy.view_subbyte().unwrap().iter().eq(view.iter()));
        }
    } else {
        let copy = tensor.to_copy().unwrap();
        let copied = TensorRef::from(&copy);
        let expected: Vec<u8> = d
            .positions()
            .into_iter()
            .flat_map(|position| element(bytes, d, start, position).to_vec())
            .collect();
        assert_eq!(copied.as_bytes().unwrap(), expected);
    }
}

/// Round trips, shared exports and slices of a tensor: the deleter runs once, at the end.
fn goes_round(tensor: Tensor, producer: &Producer) {
    let dtype: DataType = tensor.dtype();
    let (shape, address) = (tensor.shape().to_vec(), tensor.data().addr());
    let tensor = match tensor.into_raw_legacy() {
        // SAFETY: the pointer was just exported, and no other code has it.
        Ok(legacy) => unsafe { Tensor::from_raw_legacy(legacy) }.unwrap(),
        Err((tensor, _)) => tensor,
    };
    // SAFETY: the pointer was just exported, and no other code has it.
    let tensor = unsafe { Tensor::from_raw(tensor.into_raw()) }.unwrap();
    assert_eq!(
        (tensor.dtype(), tensor.shape(), tensor.data().addr()),
        (dtype, &shape[..], address)
    );
    let tensor = tensor.into_shared();
    // SAFETY: the pointer was just exported, and no other code has it.
    let lent = unsafe { Tensor::from_raw(tensor.to_raw()) }.unwrap();
    let shared = tensor.share().transpose();
    drop(tensor);
    assert_eq!(producer.deleted(), 0);
    drop(lent);
    drop(shared.flip(0));
}
