//! The power spectrum of real signals, by the crate `realfft`.

use dlbridge_ops::{View, op};
use realfft::{FftError, FftNum, RealFftPlanner};

/// The squared magnitudes of the Fourier coefficients of each row, without those of negative frequencies.
///
/// Its input and output are real, because PyTorch and JAX have opposite conventions for gradients of complex numbers.
#[op(vjp = power_spectrum_vjp, T in [f32, f64], shape(power = [x[..-1], x[-1] / 2 + 1]))]
pub(crate) fn power_spectrum<T: FftNum>(x: View<'_, T>, power: &mut [T]) -> Result<(), FftError> {
    // Signals without samples keep the zeros, so `power` is not of `Uninit`.
    let Some(samples) = samples(&x) else { return Ok(()) };
    let transform = RealFftPlanner::new().plan_fft_forward(samples);
    let (mut signal, mut coefficients) = (transform.make_input_vec(), transform.make_output_vec());
    let mut elements = x.iter();
    for power in power.chunks_mut(coefficients.len()) {
        signal.iter_mut().zip(&mut elements).for_each(|(sample, x)| *sample = *x);
        transform.process(&mut signal, &mut coefficients)?;
        power.iter_mut().zip(&coefficients).for_each(|(power, c)| *power = c.norm_sqr());
    }
    Ok(())
}

/// The gradient of power_spectrum: an inverse transform of the coefficients, weighted with the gradient.
#[op(
    T in [f32, f64],
    shape(grad_x = like(x)),
    require(grad_power[..] == [x[..-1], x[-1] / 2 + 1])
)]
pub(crate) fn power_spectrum_vjp<T: FftNum>(
    x: View<'_, T>,
    grad_power: &[T],
    grad_x: &mut [T],
) -> Result<(), FftError> {
    let Some(samples) = samples(&x) else { return Ok(()) };
    let mut planner = RealFftPlanner::new();
    let (forward, inverse) = (planner.plan_fft_forward(samples), planner.plan_fft_inverse(samples));
    let (mut signal, mut coefficients) = (forward.make_input_vec(), forward.make_output_vec());
    let mut elements = x.iter();
    let rows = grad_x.chunks_mut(samples).zip(grad_power.chunks(coefficients.len()));
    for (grad_x, grad_power) in rows {
        signal.iter_mut().zip(&mut elements).for_each(|(sample, x)| *sample = *x);
        forward.process(&mut signal, &mut coefficients)?;
        for (k, (coefficient, &grad)) in coefficients.iter_mut().zip(grad_power).enumerate() {
            // The inverse counts a coefficient two times if it has a negative frequency of the same magnitude.
            let single = k == 0 || 2 * k == samples;
            *coefficient = *coefficient * if single { grad + grad } else { grad };
        }
        inverse.process(&mut coefficients, grad_x)?;
    }
    Ok(())
}

/// The number of samples of each signal; `None` if there are none.
fn samples<T>(x: &View<'_, T>) -> Option<usize> {
    x.shape().last().map(|&samples| samples as usize).filter(|&samples| samples > 0)
}
