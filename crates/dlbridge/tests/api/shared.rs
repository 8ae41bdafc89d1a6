//! Tensors with several handles, and tensors made of a description.

use std::mem;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use crate::common::{Counted, delete};
use dlbridge::{Access, ArcTensor, DataType, Tensor, TensorRef};

#[test]
fn handles_of_many_threads_end_with_one_drop() {
    const THREADS: usize = if cfg!(miri) { 3 } else { 8 };
    const ROUNDS: usize = if cfg!(miri) { 4 } else { 1000 };
    let (owner, dropped) = Counted::new(vec![1_u8; 4]);
    let tensor = Tensor::from_parts(owner, [4]).unwrap().into_shared();
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let (mut own, start) = (tensor.clone(), &start);
            scope.spawn(move || {
                start.wait();
                for _ in 0..ROUNDS {
                    let other = own.clone();
                    assert!(own.get_mut().is_none());
                    own = other.try_into_tensor().unwrap_err();
                }
            });
        }
    });
    assert!(tensor.is_sole());
    assert_eq!(dropped.get(), 0);
    drop(tensor);
    assert_eq!(dropped.get(), 1);
}

#[test]
fn exactly_one_of_the_last_two_threads_gets_the_tensor_or_none() {
    for _ in 0..if cfg!(miri) { 4 } else { 500 } {
        let (owner, dropped) = Counted::new(vec![1_u8]);
        let first = Tensor::from_parts(owner, [1]).unwrap().into_shared();
        let second = first.clone();
        let got = thread::scope(|scope| {
            let other = scope.spawn(|| second.try_into_tensor().is_ok());
            usize::from(first.try_into_tensor().is_ok()) + usize::from(other.join().unwrap())
        });
        assert!(got <= 1, "two threads got the only tensor");
        assert_eq!(dropped.get(), 1);
    }
}

#[test]
fn export_keeps_the_tensor_or_the_source_of_its_memory() {
    let mut tensor = Tensor::from([1_i32, 2]).into_shared();
    let export = tensor.to_raw();
    assert!(!tensor.is_sole() && tensor.get_mut().is_none());
    delete(export);
    assert!(tensor.is_sole());
    let second = tensor.share().into_shared();
    let export = second.to_raw();
    assert!(second.is_sole(), "the export holds the source");
    assert!(!tensor.is_sole());
    drop(second);
    delete(export);
    tensor.get_mut().unwrap().view_mut::<i32>().unwrap()[0] = 10;
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [10, 2]);
}

#[cfg(feature = "std")]
#[test]
fn shared_tensor_is_an_owner_that_drops_in_a_chain() {
    let mut tensor = Tensor::from(vec![7_u16; 3]);
    for _ in 0..if cfg!(miri) { 40 } else { 100_000 } {
        let described = TensorRef::from(&tensor).slice(0, ..).unwrap();
        let (data, dtype) = (described.data(), described.dtype());
        drop(described);
        let shared = tensor.into_shared();
        let parts = dlbridge::RawParts::new(data, dtype);
        // SAFETY: the three elements of the tensor, which the owner keeps.
        tensor = unsafe { Tensor::from_raw_parts(shared, parts, &[3], None::<&[i64]>) }.unwrap();
    }
    assert_eq!(tensor.view::<u16>().unwrap().to_vec(), [7, 7, 7]);
    thread::Builder::new().stack_size(256 << 10).spawn(|| drop(tensor)).unwrap().join().unwrap();
}

#[test]
fn tensor_of_a_description_has_its_layout_and_drops_its_owner_once() {
    let values: Vec<i32> = (0..24).collect();
    let whole = TensorRef::from(&values[..]).reshape([2, 3, 4]).unwrap();
    let layouts = [
        whole.clone(),
        whole.clone().transpose(),
        whole.clone().slice(1, 1..1).unwrap(),
        whole.clone().slice(2, 3..).unwrap().flip(0).unwrap(),
        whole.clone().index_axis(0, 1).unwrap().index_axis(0, 2).unwrap().index_axis(0, 3).unwrap(),
    ];
    for described in layouts {
        let (owner, dropped) = Counted::new(values.clone());
        // SAFETY: the elements are those of `values`, which lives as long as this test, and nothing writes them.
        let tensor = unsafe { Tensor::from_described(owner, &described, Access::ReadOnly) };
        assert_eq!((tensor.shape(), tensor.strides()), (described.shape(), described.strides()));
        assert_eq!((tensor.dtype(), tensor.access()), (described.dtype(), Access::ReadOnly));
        assert_eq!(tensor.data().is_null(), described.is_empty());
        assert_eq!(
            tensor.view::<i32>().unwrap().to_vec(),
            described.view::<i32>().unwrap().to_vec()
        );
        let again: ArcTensor = tensor.into();
        assert_eq!(again.share().shape(), described.shape());
        drop(again);
        assert_eq!(dropped.get(), 1);
    }
}

#[test]
fn tensor_with_a_kept_value_has_the_same_elements_and_drops_all_once() {
    let order = Arc::new(Mutex::new(Vec::new()));
    struct Noted(Arc<Mutex<Vec<&'static str>>>, &'static str);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(self.1);
        }
    }
    let values: &'static [i32] = &[1, 2, 3, 4, 5, 6];
    let columns = TensorRef::from(values).reshape([2, 3]).unwrap().transpose();
    let noted = |name| Noted(Arc::clone(&order), name);
    for access in [Access::Immutable, Access::ReadOnly] {
        // SAFETY: the values are static, and never written.
        let tensor = unsafe { Tensor::from_described(noted("memory"), &columns, access) };
        let kept = tensor.with_keepalive(noted("kept")).with_keepalive(noted("kept outside"));
        assert_eq!((kept.shape(), kept.strides()), (&[3, 2][..], &[1, 3][..]));
        assert_eq!((kept.dtype(), kept.access()), (DataType::INT32, access));
        assert_eq!(kept.data(), values.as_ptr().cast_mut().cast());
        // A consumer keeps all of them.
        let raw = kept.into_raw();
        assert!(order.lock().unwrap().is_empty());
        // SAFETY: a managed tensor that nothing else uses.
        drop(unsafe { Tensor::from_raw(raw) }.unwrap());
        let mut dropped = mem::take(&mut *order.lock().unwrap());
        dropped.sort_unstable();
        assert_eq!(dropped, ["kept", "kept outside", "memory"]);
    }
    let mut exclusive = Tensor::from(vec![1_u8; 3]).with_keepalive(());
    assert_eq!(exclusive.access(), Access::Exclusive);
    exclusive.view_mut::<u8>().unwrap().into_mut_slice().unwrap().fill(2);
    let exclusive = exclusive.try_into_owner::<Vec<u8>>().unwrap_err();
    assert_eq!(exclusive.view::<u8>().unwrap().to_vec(), [2, 2, 2]);
}
