//! Measures the behaviour of the installed release of a framework, when the first tensor is exported to it.
//!
//! A probe goes through the function that the export is about to call, on the CPU, so it initialises no device that
//! the export would not. The result is imported again, and its address, extents, strides and read-only mark are
//! compared with those of the probe.
//!
//! - An exception of the framework refuses the probe. `KeyboardInterrupt`, `RecursionError` and `MemoryError` reach the
//!   caller, and the next call measures again.
//! - A probe without an answer leaves the careful assumption: the framework ignores the read-only mark, accepts only
//!   C order, and needs an alignment of 64 bytes.
//! - A limit beyond which a later operation of the framework fails cannot be measured; the file of the framework
//!   states it (`Framework::layout_limit`, `Framework::align_limit`).

use dlbridge::{DataType, Tensor};
use pyo3::prelude::*;

use super::probe::{Probe, SHAPE, Seen};
use crate::PyTensor;
use crate::error::to_py_err;
use crate::frameworks::{Argument, Behaviour, Layout, ReadOnly, Request};
use crate::protocol::exchange_api::Table;
use crate::protocol::exchange_table;

const NUMBERS: (DataType, &[usize]) = (DataType::FLOAT32, &SHAPE);

/// Measures a framework with at most ten tiny tensors. A step that fails leaves the careful assumption; `None` for a
/// framework that cannot be measured.
pub(super) fn behaviour(
    probe: &Probe<'_, '_>,
    table: Option<Table>,
) -> PyResult<Option<Behaviour>> {
    let limit = |behaviour: Behaviour| Behaviour {
        layout: behaviour.layout.max(probe.framework.layout_limit),
        align: behaviour.align.max(probe.framework.align_limit),
        ..behaviour
    };
    Ok(without_limits(probe, table)?.map(limit))
}

fn without_limits(probe: &Probe<'_, '_>, table: Option<Table>) -> PyResult<Option<Behaviour>> {
    let Some((request, marked)) = request(probe)? else { return Ok(None) };
    let plain = match marked {
        Some(Seen { shared: true, .. }) => true,
        _ => match probe.try_out(probe.tensor(0, NUMBERS, false)?, request)? {
            Some(seen) => seen.shared,
            None => return Ok(None),
        },
    };
    if !plain {
        let read_only = ReadOnly::Copied;
        return Ok(Some(Behaviour { request, copies: true, read_only, ..Behaviour::CAREFUL }));
    }
    Ok(Some(Behaviour {
        request,
        copies: false,
        read_only: read_only(probe, table, (request, marked))?,
        layout: layout(probe, request)?,
        idle_strides: !is_shared(probe, request, idle_strides(probe)?)?,
        align: align(probe, request)?,
    }))
}

/// How the framework requests read-only data, and its result; `None` if it does not request it.
fn request(probe: &Probe<'_, '_>) -> PyResult<Option<(Request, Option<Seen>)>> {
    let try_out = |request| probe.try_out(probe.tensor(0, NUMBERS, true)?, request);
    if probe.framework.calls_tables {
        return Ok(Some((Request::ExchangeApi, try_out(Request::ExchangeApi)?)));
    }
    if probe.framework.argument == Argument::Capsule {
        let newest = Request::Versioned(1, 3);
        let seen = try_out(newest)?;
        return Ok(Some(if seen.is_some() { (newest, seen) } else { (Request::Legacy, None) }));
    }
    let tensor = probe.tensor(0, NUMBERS, true)?;
    // A second description of the same memory: the framework consumes the first one.
    let sent = probe.tensor(0, NUMBERS, true)?;
    let (result, request) = probe.ask(tensor)?;
    let seen = probe.look(result.as_ref(), &sent)?;
    Ok(request.map(|request| (request, seen)))
}

/// How the framework treats read-only data, by its function and by its table.
fn read_only(
    probe: &Probe<'_, '_>,
    table: Option<Table>,
    (request, marked): (Request, Option<Seen>),
) -> PyResult<ReadOnly> {
    let immutable = probe.framework.immutable;
    if request == Request::Legacy {
        // The capsule cannot mark the data.
        return Ok(if immutable { ReadOnly::Immutable } else { ReadOnly::Lost });
    }
    let treated = |seen: Option<Seen>| match seen {
        None => ReadOnly::Lost,
        Some(Seen { shared: false, .. }) => ReadOnly::Copied,
        Some(_) if immutable => ReadOnly::Immutable,
        Some(Seen { read_only: true, .. }) => ReadOnly::Kept,
        Some(_) => ReadOnly::Lost,
    };
    let by_function = treated(marked);
    let Some(table) = table.filter(|_| by_function != ReadOnly::Lost) else {
        return Ok(by_function);
    };
    let tensor = PyTensor::from(probe.tensor(0, NUMBERS, true)?);
    let result =
        probe.unless_refused(exchange_table::export(probe.function.py(), table, &tensor))?;
    Ok(match treated(probe.look(result.as_ref(), tensor.tensor())?) {
        ReadOnly::Lost => ReadOnly::Lost,
        _ => by_function,
    })
}

/// The most general strides that the framework shares.
fn layout(probe: &Probe<'_, '_>, request: Request) -> PyResult<Layout> {
    let gaps = || {
        let wide = probe.tensor(0, (DataType::FLOAT32, &[2, 6]), false)?;
        wide.step_by(1, 2).map_err(to_py_err)
    };
    let limit = probe.framework.layout_limit;
    if limit <= Layout::Any && is_shared(probe, request, gaps()?.flip(0).map_err(to_py_err)?)? {
        return Ok(Layout::Any);
    }
    if limit <= Layout::NonNegative && is_shared(probe, request, gaps()?)? {
        return Ok(Layout::NonNegative);
    }
    let transposed = probe.tensor(0, NUMBERS, false)?.transpose();
    Ok(if is_shared(probe, request, transposed)? { Layout::Compact } else { Layout::C })
}

/// A row, with a negative stride in the dimension of extent 1.
fn idle_strides(probe: &Probe<'_, '_>) -> PyResult<Tensor> {
    let row = probe.tensor(0, (DataType::FLOAT32, &[1, 3]), false)?;
    row.flip(0).map_err(to_py_err)
}

/// The smallest alignment that makes the framework share data; 1 if it needs none.
fn align(probe: &Probe<'_, '_>, request: Request) -> PyResult<usize> {
    let limit = probe.framework.align_limit;
    let is_enough = |align: usize| match align >= limit {
        true => is_shared(probe, request, probe.tensor(align, NUMBERS, false)?),
        false => Ok(false),
    };
    if is_enough(16)? {
        return Ok(if is_enough(1)? { 1 } else { 16 });
    }
    Ok(if is_enough(64)? { 64 } else { 256 })
}

fn is_shared(probe: &Probe<'_, '_>, request: Request, tensor: Tensor) -> PyResult<bool> {
    Ok(probe.try_out(tensor, request)?.is_some_and(|seen| seen.shared))
}
