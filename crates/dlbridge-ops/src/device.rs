//! The devices of a call: all tensors on the CPU, or all on one CUDA device.

use dlbridge::{Device, DeviceType};

use crate::error::{Error, ErrorKind, Result};
use crate::operator::Operator;
use crate::outputs::unknown_device;
use crate::parameter::Parameter;
use crate::value::Value;

/// Returns true for the memory that kernels of CUDA use.
pub(crate) fn is_cuda(device: Device) -> bool {
    matches!(device.device_type(), DeviceType::CUDA | DeviceType::CUDA_MANAGED)
}

impl Operator {
    /// Checks that a tensor is on a device that the operator takes.
    pub(crate) fn check_device(&self, name: &str, device: Device) -> Result<()> {
        let (fits, needed, remedy) = match self.on_cuda {
            true => (
                is_cuda(device),
                "a CUDA device",
                "move it there before the call, or call an operator for the CPU",
            ),
            false => (
                device.device_type().is_host_accessible(),
                "the CPU",
                "move it there before the call, or call an operator for CUDA",
            ),
        };
        if fits {
            return Ok(());
        }
        Err(Error::of(
            ErrorKind::Buffer,
            format_args!("{name} must be on {needed}, but is on {device}; {remedy}"),
        ))
    }

    /// Checks the devices of the inputs. Returns the number of the CUDA device on which they are.
    pub(crate) fn check_devices(&self, inputs: &[Value<'_>]) -> Result<Option<i32>> {
        let mut first: Option<(&Parameter, i32)> = None;
        for (parameter, value) in self.inputs().zip(inputs) {
            if value.shape().is_none() {
                continue;
            }
            let device = value.device();
            self.check_device(parameter.name, device)?;
            match first {
                _ if !is_cuda(device) => {}
                None => first = Some((parameter, device.id())),
                Some((_, id)) if id == device.id() => {}
                Some((other, id)) => {
                    return Err(Error::of(
                        ErrorKind::Buffer,
                        format_args!(
                            "{} is on {device}, but {} is on CUDA device {id}; move both to one device",
                            parameter.name, other.name
                        ),
                    ));
                }
            }
        }
        Ok(first.map(|(_, id)| id))
    }

    /// Checks that the outputs of the caller are on the CUDA device of the inputs, and returns it.
    pub(crate) fn device_of_outputs(&self, inputs: Option<i32>, outputs: &[Device]) -> Result<i32> {
        let first = inputs.or_else(|| outputs.first().map(|device| device.id()));
        let device = first.ok_or_else(unknown_device)?;
        match self.outputs().zip(outputs).find(|(_, output)| output.id() != device) {
            None => Ok(device),
            Some((output, found)) => Err(Error::of(
                ErrorKind::Buffer,
                format_args!(
                    "{} is on {found}, but the call on CUDA device {device}; move all tensors to one device",
                    output.name
                ),
            )),
        }
    }
}
