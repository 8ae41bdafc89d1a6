//! Sums of tensors that C exports. `stats.h` describes the functions.

mod status;

use std::thread::{self, JoinHandle};

use dlbridge::sys::{DLManagedTensor, DLManagedTensorVersioned};
use dlbridge::{DataType, Element, Tensor};

use status::{Failure, Message, Out, Status, answer, place};

/// `stats_job`: opaque to C.
pub struct Job(JoinHandle<Result<f64, Failure>>);

fn sum(tensor: &Tensor) -> Result<f64, Failure> {
    fn sum<T: Element + Copy + Into<f64>>(tensor: &Tensor) -> Result<f64, Failure> {
        // Accepts any strides. Fails for data on another device, or at an address that is not aligned for `T`.
        Ok(tensor.view::<T>()?.iter().fold(0.0, |sum, &element| sum + element.into()))
    }
    match tensor.dtype() {
        DataType::INT32 => sum::<i32>(tensor),
        DataType::FLOAT32 => sum::<f32>(tensor),
        DataType::FLOAT64 => sum::<f64>(tensor),
        dtype => Err(Failure::DataType(dtype)),
    }
}

/// `stats_sum`
///
/// # Safety
/// The contract of [`Tensor::from_raw`], for the tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stats_sum(
    tensor: *mut DLManagedTensorVersioned,
    out: Out<'_, f64>,
    message: Out<'_, Message>,
) -> Status {
    answer(message, || {
        // SAFETY: the caller fulfils the contract of `Tensor::from_raw`. This comes first, because this function owns
        // the tensor even if other arguments are wrong: from here on, dropping it runs its deleter.
        let tensor = unsafe { Tensor::from_raw(tensor) }?;
        place(out, "sum")?.write(sum(&tensor)?);
        Ok(())
    })
}

/// `stats_sum_legacy`
///
/// # Safety
/// The contract of [`Tensor::from_raw_legacy`], for the tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stats_sum_legacy(
    tensor: *mut DLManagedTensor,
    out: Out<'_, f64>,
    message: Out<'_, Message>,
) -> Status {
    answer(message, || {
        // SAFETY: the caller fulfils the contract of `Tensor::from_raw_legacy`.
        let tensor = unsafe { Tensor::from_raw_legacy(tensor) }?;
        place(out, "sum")?.write(sum(&tensor)?);
        Ok(())
    })
}

/// `stats_start`
///
/// # Safety
/// The contract of [`Tensor::from_raw`], for the tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stats_start(
    tensor: *mut DLManagedTensorVersioned,
    out: Out<'_, Box<Job>>,
    message: Out<'_, Message>,
) -> Status {
    answer(message, || {
        // SAFETY: the caller fulfils the contract of `Tensor::from_raw`.
        let tensor = unsafe { Tensor::from_raw(tensor) }?;
        let out = place(out, "job")?;
        // The thread owns the tensor, and drops it at its end, which runs the deleter.
        let thread = thread::Builder::new().spawn(move || sum(&tensor))?;
        out.write(Box::new(Job(thread)));
        Ok(())
    })
}

/// `stats_finish`
#[unsafe(no_mangle)]
pub extern "C" fn stats_finish(
    job: Option<Box<Job>>,
    out: Out<'_, f64>,
    message: Out<'_, Message>,
) -> Status {
    answer(message, || {
        let job = job.ok_or(Failure::Null("job"))?;
        let sum = job.0.join().map_err(|_| Failure::Panic)??;
        place(out, "sum")?.write(sum);
        Ok(())
    })
}
