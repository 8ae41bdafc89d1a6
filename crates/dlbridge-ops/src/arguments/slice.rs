//! Tensors as slices of their elements in C order.

use dlbridge::Element;

use super::array::{DYNAMIC, View, form};
use super::output::Out;
use super::{Argument, unexpected};
use crate::error::Result;
use crate::parameter::{Form, Kind};
use crate::uninit::Uninit;
use crate::value::Value;

const fn flat<T: Element>() -> Form {
    Form { flat: true, ..form::<T, DYNAMIC>(true) }
}

/// The call has copied inputs that are not contiguous.
impl<'a, T: Element> Argument<'a> for &'a [T] {
    const KIND: Kind = Kind::Input(flat::<T>());

    fn from_value(value: &mut Value<'a>) -> Result<Self> {
        if let Value::Contiguous(tensor) = value
            && let Some(elements) = tensor.elements()
        {
            return Ok(elements);
        }
        let view = View::<'a, T>::from_value(value)?;
        view.as_slice().map_or_else(|| unexpected(Self::KIND), Ok)
    }
}

/// An output, which begins as zeros.
impl<'a, T: Element> Argument<'a> for &'a mut [T] {
    const KIND: Kind = Kind::Output(flat::<T>());

    fn from_value(value: &mut Value<'a>) -> Result<Self> {
        if let Value::ContiguousMut(_) = value
            && let Value::ContiguousMut(tensor) = std::mem::take(value)
        {
            match tensor.into_elements() {
                Ok(elements) => return Ok(elements),
                Err(tensor) => *value = Value::ContiguousMut(tensor),
            }
        }
        let out = Out::<'a, T>::from_value(value)?;
        out.into_view_mut().into_mut_slice().map_or_else(|| unexpected(Self::KIND), Ok)
    }
}

/// An output that the function only writes.
impl<'a, T: Element> Argument<'a> for &'a mut [Uninit<T>] {
    const KIND: Kind = <&mut [T]>::KIND;

    fn from_value(value: &mut Value<'a>) -> Result<Self> {
        if let Value::ContiguousMut(_) = value
            && let Value::ContiguousMut(tensor) = std::mem::take(value)
        {
            match tensor.into_uninit() {
                Ok(elements) => return Ok(elements),
                Err(tensor) => *value = Value::ContiguousMut(tensor),
            }
        }
        <&mut [T]>::from_value(value).map(Uninit::of)
    }
}
