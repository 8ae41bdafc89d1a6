//! Sums of tensors that C lends. The functions are described in `stats.h`.

mod status;

use std::thread::{self, JoinHandle};

use dlbridge::sys::{DLManagedTensor, DLManagedTensorVersioned};
use dlbridge::{DataType, Element, Tensor};

use status::{Failure, Message, Out, Status, answer, place};

/// `stats_job`: opaque to C.
pub struct Job(JoinHandle<Result<f64, Failure>>);

fn sum(tensor: &Tensor) -> Result<f64, Failure> {
    fn sum<T: Element + Copy + Into<f64>>(tensor: &Tensor) -> Result<f64, Failure> {
        // Any strides. Fails for data on another device, or at an address that no `T` can have.
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
        // SAFETY: by contract. Comes first, because the tensor is ours whatever else is wrong: from
        // here on its deleter runs when it is dropped.
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
        // SAFETY: by contract.
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
        // SAFETY: by contract.
        let tensor = unsafe { Tensor::from_raw(tensor) }?;
        let out = place(out, "job")?;
        // The thread owns the tensor, and drops it at its end: there the deleter runs.
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
