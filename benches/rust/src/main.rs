use std::hint::black_box;
use std::alloc::{alloc, dealloc, Layout};
use dlbridge::sys::*;
use ndarray::*;

#[inline(never)] fn source() -> Vec<f32> { black_box(vec![1.0f32; 24]) }
fn finish(raw: *mut DLManagedTensorVersioned) { let raw = black_box(raw); unsafe { ((*raw).deleter.unwrap())(raw) } }
fn ours() { finish(dlbridge::Tensor::from(source()).into_raw()) }
fn ours4(s: [usize;4]) { finish(dlbridge::Tensor::from_parts(source(), s).unwrap().into_raw()) }
#[repr(C)] struct Floor<const N: usize> { managed: DLManagedTensorVersioned, shape: [i64; N], strides: [i64; N], owner: Vec<f32> }
unsafe extern "C" fn drop_floor<const N: usize>(p: *mut DLManagedTensorVersioned) { drop(unsafe { Box::from_raw(p.cast::<Floor<N>>()) }) }
fn floor<const N: usize>(shape: [i64; N]) {
    let mut owner = source();
    let mut strides = [0; N]; let mut s = 1; for i in (0..N).rev() { strides[i] = s; s *= shape[i]; }
    let data = owner.as_mut_ptr();
    let b = Box::into_raw(Box::new(Floor { managed: DLManagedTensorVersioned { version: DLPackVersion { major: 1, minor: 3 }, manager_ctx: std::ptr::null_mut(), deleter: Some(drop_floor::<N>), flags: 0,
      dl_tensor: DLTensor { data: data.cast(), device: DLDevice { device_type: kDLCPU, device_id: 0 }, ndim: N as i32, dtype: DLDataType { code: kDLFloat, bits: 32, lanes: 1 }, shape: std::ptr::null_mut(), strides: std::ptr::null_mut(), byte_offset: 0 } }, shape, strides, owner }));
    unsafe { (*b).managed.dl_tensor.shape = (&raw mut (*b).shape).cast(); (*b).managed.dl_tensor.strides = (&raw mut (*b).strides).cast(); }
    finish(b.cast())
}
#[inline(never)] fn array() -> Array3<f32> { black_box(Array3::<f32>::zeros((2, 3, 4))) }
fn ours_nd() { let t = dlbridge::Tensor::from(array()); let v: ArrayView3<f32> = t.view::<f32>().unwrap().try_into().unwrap(); black_box(v[[1,2,3]]); }
fn ours_nd_new() { black_box(dlbridge::Tensor::from(array())); }
fn ours_nd_view() { let t = dlbridge::Tensor::from(array()); black_box(t.view::<f32>().unwrap()); }
fn dlpark_nd() {
    use dlpark::{allocation::dynamic, versioned, TryFromDlpack};
    let i: dynamic::Initialized<dlpark::ffi::DLManagedTensorVersioned> = Box::new(array()).try_into().unwrap();
    let d: versioned::Dlpack = unsafe { i.finish() };
    let v: ArrayViewD<f32> = unsafe { ArrayViewD::try_from_dlpack(&d, ()) }.unwrap(); black_box(v[[1,2,3]]);
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n: usize = args[2].parse().unwrap();
    let shape = black_box([2i64,3,2,2]); let ushape = black_box([2usize,3,2,2]); let one = black_box([24i64]);
    let f: &dyn Fn() = match &args[1][..] { "source" => &|| { black_box(source()); }, "ours" => &ours, "ours4" => &|| ours4(ushape), "floor" => &|| floor(one), "floor4" => &|| floor(shape), "array" => &|| { black_box(array()); }, "nd" => &ours_nd, "nd_new" => &ours_nd_new, "nd_view" => &ours_nd_view, "dlpark_nd" => &dlpark_nd, _ => panic!() };
    for _ in 0..n { f() }
    let _ = Layout::new::<u8>(); let _ = (alloc as unsafe fn(Layout)->*mut u8, dealloc as unsafe fn(*mut u8, Layout));
}
