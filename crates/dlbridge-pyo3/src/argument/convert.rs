//! Elements of one dtype as those of another that has all their values.

use dlbridge::{DataType, Element, Result, Tensor, TensorRef};

/// A copy in C order with elements of the first of some dtypes that has all values of the tensor's own;
/// `None` if none of them has.
pub(super) fn lossless(source: &TensorRef<'_>, dtypes: &[DataType]) -> Result<Option<Tensor>> {
    macro_rules! pairs {
        ($($from:ty => $($to:ty),+;)+) => {
            for &dtype in dtypes {
                $($(
                    if (source.dtype(), dtype) == (<$from>::DTYPE, <$to>::DTYPE) {
                        return converted::<$from, $to>(source).map(Some);
                    }
                )+)+
            }
        };
    }
    pairs! {
        bool => u8, u16, u32, u64, i8, i16, i32, i64, f32, f64;
        u8 => u16, u32, u64, i16, i32, i64, f32, f64;
        u16 => u32, u64, i32, i64, f32, f64;
        u32 => u64, i64, f64;
        i8 => i16, i32, i64, f32, f64;
        i16 => i32, i64, f32, f64;
        i32 => i64, f64;
        f32 => f64;
    }
    Ok(None)
}

fn converted<S: Element, T: Element + Default + From<S>>(source: &TensorRef<'_>) -> Result<Tensor> {
    let shape: Vec<usize> = source.shape().iter().map(|&extent| extent as usize).collect();
    let mut target = Tensor::zeros(T::DTYPE, shape)?;
    // Elements at any address: what is unaligned is converted too.
    let aligned;
    let view = match source.view::<S>() {
        Ok(view) => view,
        Err(_) => {
            aligned = source.to_copy()?;
            aligned.view::<S>()?
        }
    };
    for (to, &from) in target.view_mut::<T>()?.iter_mut().zip(view.iter()) {
        *to = T::from(from);
    }
    Ok(target)
}
