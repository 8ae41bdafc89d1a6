//! Counts allocations, and checks that every path frees them, also when it refuses. The allocator of this program
//! counts per thread; the program has one test, so that no other test allocates.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;

use common::{Producer, delete, delete_the_legacy, take, take_legacy};
use dlbridge::{DataType, Tensor, TensorSlice, TensorSliceMut};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, with a count per thread.
struct Counting;

// SAFETY: forwards to the system's allocator. Counters that need no initialisation and no drop
// allocate nothing themselves.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        LIVE_BYTES.set(LIVE_BYTES.get() + layout.size() as isize);
        // SAFETY: the caller guarantees the same for this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE_BYTES.set(LIVE_BYTES.get() - layout.size() as isize);
        // SAFETY: the caller guarantees the same for this function, and `alloc` returned the memory of `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations that `f` makes, and its result.
fn counted<T>(f: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATIONS.get();
    let result = f();
    (ALLOCATIONS.get() - before, result)
}

#[test]
fn every_path_allocates_what_it_needs_and_frees_it() {
    exporting_takes_one_allocation();
    export_makes_one_allocation();
    importing_takes_one_allocation();
    #[cfg(feature = "ndarray")]
    an_array_takes_one_allocation();
    #[cfg(feature = "bytes")]
    a_loop_through_bytes_keeps_one_owner();
    every_path_frees_what_it_allocated();
}

#[cfg(feature = "bytes")]
fn a_loop_through_bytes_keeps_one_owner() {
    use bytes::Bytes;

    let turn = |tensor: Tensor| {
        let tensor = tensor.into_shared();
        Tensor::from(Bytes::try_from(tensor.share()).unwrap())
    };
    let mut tensor = turn(turn(Tensor::from(Bytes::from(vec![1_u8, 2, 3]))));
    let before = LIVE_BYTES.get();
    for _ in 0..100 {
        tensor = turn(tensor);
    }
    assert_eq!(LIVE_BYTES.get() - before, 0);
    drop(tensor);
}

fn exporting_takes_one_allocation() {
    let values = vec![1.0_f32; 12];
    let (allocations, tensor) = counted(|| Tensor::from(values));
    assert_eq!(allocations, 1, "header, owner, shape and strides are in one block");
    let (allocations, _) = counted(|| {
        let view = tensor.view::<f32>().unwrap();
        black_box((view.as_slice(), view.get([3]), view[[4]], view.len()));
        black_box((tensor.shape(), tensor.strides(), tensor.dtype(), tensor.access()));
        let managed = tensor.into_raw();
        let mut tensor = take(managed).unwrap();
        tensor.view_mut::<f32>().unwrap()[[0]] = 2.0;
        drop(tensor);
    });
    assert_eq!(allocations, 0, "views, a round trip and the drop allocate nothing");

    let values = vec![1.0_f32; 12];
    let (allocations, tensor) = counted(|| Tensor::from_parts(values, [1, 2, 3, 2]).unwrap());
    assert_eq!(allocations, 1, "in any shape");
    let (allocations, values) = counted(|| tensor.try_into_owner::<Vec<f32>>().unwrap());
    assert_eq!((allocations, values.len()), (0, 12));

    let (allocations, tensor) = counted(|| Tensor::from([[1_u8, 2], [3, 4]]));
    assert_eq!(allocations, 2, "an array moves to the heap first");
    drop(tensor);
}

fn export_makes_one_allocation() {
    let tensor = Tensor::from(vec![1_u16; 4]).into_shared();
    let (allocations, managed) = counted(|| tensor.to_raw());
    assert_eq!(allocations, 1);
    assert_eq!(counted(|| delete(managed)).0, 0);
    let (allocations, managed) = counted(|| tensor.to_raw_legacy().unwrap());
    assert_eq!(allocations, 1);
    assert_eq!(counted(|| delete_the_legacy(managed)).0, 0);
    let (allocations, second) = counted(|| tensor.share());
    assert_eq!(allocations, 1);
    drop((second, tensor));

    let values = vec![1_u16; 4];
    let (allocations, managed) = counted(|| Tensor::from(values).into_raw_legacy().unwrap());
    assert_eq!(allocations, 2, "the tensor's block, and a legacy struct that holds it");
    let (allocations, home) = counted(|| take_legacy(managed).unwrap());
    assert_eq!((allocations, home.len()), (0, 4));
}

fn importing_takes_one_allocation() {
    let managed = Producer::new(vec![1.0_f32; 6], &[2, 3]).versioned();
    let (allocations, tensor) = counted(|| take(managed).unwrap());
    assert_eq!((allocations, counted(|| drop(tensor)).0), (1, 0));
    let managed = Producer::new(vec![1.0_f32; 6], &[2, 3]).legacy();
    let (allocations, tensor) = counted(|| take_legacy(managed).unwrap());
    assert_eq!((allocations, counted(|| drop(tensor)).0), (1, 0));
    let managed = Producer::new(vec![1.0_f32; 6], &[2, 3]).with(|p| p.version.major = 2);
    let managed = managed.versioned();
    assert_eq!(counted(|| take(managed).is_err()), (0, true));
}

#[cfg(feature = "ndarray")]
fn an_array_takes_one_allocation() {
    let array = ndarray::Array3::<f32>::zeros((2, 3, 4));
    let (allocations, tensor) = counted(|| Tensor::from(array));
    assert_eq!(allocations, 1);
    let (allocations, sum) = counted(|| {
        let seen = ndarray::ArrayView3::try_from(tensor.view::<f32>().unwrap()).unwrap();
        seen.sum()
    });
    assert_eq!((allocations, sum), (0, 0.0));
    assert_eq!(counted(|| drop(tensor)).0, 0);
}

/// Paths that must leave nothing allocated.
const PATHS: &[(&str, fn())] = &[
    ("drop", || drop(Tensor::from(vec![1_u8; 9]))),
    ("empty", || drop(Tensor::from(Vec::<u64>::with_capacity(9)))),
    ("raw", || delete(floats().into_raw())),
    ("legacy", || delete_the_legacy(floats().into_raw_legacy().unwrap())),
    ("raw round trip", || drop(take(floats().into_raw()).unwrap())),
    ("legacy round trip", || drop(take_legacy(floats().into_raw_legacy().unwrap()).unwrap())),
    ("owner out", || drop(floats().try_into_owner::<Vec<f32>>().unwrap())),
    ("wrong owner", || drop(floats().try_into_owner::<Vec<u32>>().unwrap_err())),
    ("exported", || {
        let tensor = floats().into_shared();
        let (first, second) = (tensor.to_raw(), tensor.to_raw_legacy().unwrap());
        drop(tensor);
        delete(first);
        delete_the_legacy(second);
    }),
    ("exported round trip", || {
        let tensor = floats().into_shared();
        let (first, second) = (tensor.to_raw(), tensor.to_raw_legacy().unwrap());
        drop((take(first).unwrap(), tensor, take_legacy(second).unwrap()));
    }),
    ("shared", || drop(floats().into_shared().share().into_shared().share())),
    ("sub-tensor", || drop(floats().slice(0, 1..).unwrap())),
    ("sub-tensor refused", || assert!(floats().slice(0, 99..).is_err())),
    ("more axes", || drop(floats().insert_axis(0).unwrap().insert_axis(0).unwrap())),
    ("more axes and owner out", || {
        drop(floats().insert_axis(0).unwrap().try_into_owner::<Vec<f32>>().unwrap());
    }),
    ("sub-tensor of a shared tensor", || {
        let part = floats().into_shared().share().flip(0).unwrap().into_shared();
        delete(part.to_raw());
    }),
    ("iteration", || {
        let mut tensor = floats();
        tensor.view_mut::<f32>().unwrap().iter_mut().for_each(|x| *x += 1.0);
        black_box(tensor.view::<f32>().unwrap().to_vec());
    }),
    ("copy", || drop(floats().to_copy().unwrap())),
    ("copy of a copy", || drop(floats().to_copy().unwrap().to_copy().unwrap())),
    ("copy refused", || {
        let gpu = Producer::new(vec![1.0_f32], &[1]).device(2, 0).import().unwrap();
        assert!(gpu.to_copy().is_err());
    }),
    ("slice", || drop(TensorSlice::<f32>::try_from(floats()).unwrap())),
    ("slice and tensor", || drop(TensorSliceMut::<f32>::try_from(floats()).unwrap().into_tensor())),
    ("slice refused", || assert!(TensorSlice::<u8>::try_from(floats()).is_err())),
    ("shape refused", || assert!(Tensor::from_parts(vec![0_u8; 4], [5]).is_err())),
    ("ndim refused", || assert!(Tensor::from_parts(vec![0_u8], [1; 1025]).is_err())),
    ("layout refused", || {
        assert!(Tensor::from_parts_strided(vec![0_u8; 4], [5], [1], 0).is_err());
        assert!(Tensor::from_parts_strided(vec![0_u8; 4], [2, 2], [1], 0).is_err());
    }),
    ("legacy refused", || {
        let tensor = Tensor::from(Arc::<[u8]>::from([1, 2]));
        let (tensor, _) = tensor.into_raw_legacy().unwrap_err();
        assert!(tensor.into_shared().to_raw_legacy().is_err());
    }),
    ("import", || imported(|_| ())),
    ("import: version", || imported(|p| p.version.major = 0)),
    ("import: ndim", || imported(|p| p.tensor.ndim = -1)),
    ("import: ndim too large", || imported(|p| p.tensor.ndim = i32::MAX)),
    ("import: shape", || imported(|p| p.tensor.shape = std::ptr::null_mut())),
    ("import: strides", || imported(|p| p.tensor.strides = std::ptr::null_mut())),
    ("import: extent", || imported(|p| p.tensor.shape = p.keep(vec![-1]))),
    ("import: product", || imported(|p| p.tensor.shape = p.keep(vec![i64::MAX]))),
    ("import: stride", || imported(|p| p.tensor.strides = p.keep(vec![i64::MAX]))),
    ("import: data", || imported(|p| p.tensor.data = std::ptr::null_mut())),
    ("import: byte offset", || imported(|p| p.tensor.byte_offset = u64::MAX)),
    ("import: dtype", || imported(|p| p.tensor.dtype = DataType::BOOL.with_lanes(0).into())),
    ("import: null", || assert!(take(std::ptr::null_mut()).is_err())),
    #[cfg(feature = "ndarray")]
    ("ndarray", || {
        let tensor = Tensor::from(ndarray::Array3::<u8>::zeros((1, 2, 3)).reversed_axes());
        ndarray::ArrayViewD::try_from(tensor.view::<u8>().unwrap()).unwrap();
        ndarray::ArrayView1::try_from(tensor.view::<u8>().unwrap()).unwrap_err();
        drop(tensor.try_into_owner::<ndarray::Array3<u8>>().unwrap());
        drop(Tensor::from(ndarray::ArcArray1::<u8>::zeros(4)));
    }),
    #[cfg(feature = "image")]
    ("image", || {
        type Picture = image::ImageBuffer<image::Rgb<u8>, TensorSlice<u8>>;
        let tensor = Tensor::from(image::RgbImage::new(3, 2));
        drop(Picture::try_from(tensor).unwrap());
        assert!(Picture::try_from(floats()).is_err());
    }),
    #[cfg(feature = "std")]
    ("a panic of an owner's drop", || {
        delete(Tensor::from_parts(furious(), [3]).unwrap().into_raw())
    }),
];

fn floats() -> Tensor {
    Tensor::from(vec![1.0_f32, 2.0, 3.0])
}

/// Imports three floats, changed, through both ABIs. The import may succeed or fail.
fn imported(change: fn(&mut Producer)) {
    let make = || Producer::new(vec![1.0_f32, 2.0, 3.0], &[3]).strides(&[1]).with(change);
    drop(make().import());
    drop(make().import_legacy());
}

/// An owner whose drop panics.
#[cfg(feature = "std")]
fn furious() -> impl dlbridge::Owner<Item = u8> {
    struct Furious(Vec<u8>);
    impl Drop for Furious {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("this owner always panics; the test expects it"));
        }
    }
    // SAFETY: the memory is that of the vector, which this keeps.
    unsafe impl dlbridge::Owner for Furious {
        type Item = u8;
        const ACCESS: dlbridge::Access = dlbridge::Access::Exclusive;

        fn items(&mut self) -> *mut [u8] {
            self.0.items()
        }
    }
    Furious(vec![1, 2, 3])
}

fn every_path_frees_what_it_allocated() {
    for &(name, path) in PATHS {
        // Once for state that the first use allocates and keeps.
        path();
        let before = LIVE_BYTES.get();
        path();
        assert_eq!(LIVE_BYTES.get() - before, 0, "bytes left after: {name}");
    }
}
