//! A large file opened as many tensors: the time until a byte of the last one is read, and the growth of the process's
//! memory until then. Each process runs one library, so that no library profits from another's caches.

use std::fs::{self, File};
use std::hint::black_box;
use std::time::Instant;

use memmap2::Mmap;
use safetensors::SafeTensors;

/// Opens the file, and prints time and memory as JSON.
pub(crate) fn print(library: &str, path: &str) -> Result<(), String> {
    let before = resident()?;
    let begun = Instant::now();
    // The match returns the tensors, so that they live until the memory is measured.
    let (count, held): (usize, Box<dyn std::any::Any>) = match library {
        "dlbridge" => {
            let tensors = dlbridge::safetensors::load(map(path)?).map_err(|e| e.to_string())?;
            let last = tensors.values().next_back().ok_or("no tensors")?;
            let bytes = dlbridge::TensorRef::from(last).as_bytes().map_err(|e| e.to_string())?;
            black_box(bytes[0]);
            (tensors.len(), Box::new(tensors))
        }
        "dlpark" => {
            let file = dlpark::interop::safetensors::SafeTensorFile::open(path)
                .map_err(|e| e.to_string())?;
            let tensors: Result<Vec<_>, _> =
                file.names().iter().map(|name| file.tensor(name)).collect();
            let tensors = tensors.map_err(|e| e.to_string())?;
            let last = tensors.last().ok_or("no tensors")?.validate().map_err(|e| e.to_string())?;
            // SAFETY: the memory is the map's, which is alive, and which no code writes.
            let values = unsafe { last.cpu_slice::<f32>() }.map_err(|e| e.to_string())?;
            black_box(values[0]);
            (tensors.len(), Box::new(tensors))
        }
        "safetensors" => {
            let map = map(path)?;
            let tensors = SafeTensors::deserialize(&map).map_err(|e| e.to_string())?;
            let views: Vec<_> = tensors.tensors();
            black_box(views.last().ok_or("no tensors")?.1.data()[0]);
            let (count, taken) = (views.len(), begun.elapsed());
            return show(taken.as_nanos(), resident()? - before, count);
        }
        _ => return Err(format!("unknown library for safetensors files: {library}")),
    };
    let taken = begun.elapsed();
    show(taken.as_nanos(), resident()? - before, count)?;
    drop(held);
    Ok(())
}

fn show(nanoseconds: u128, bytes: u64, tensors: usize) -> Result<(), String> {
    let milliseconds = nanoseconds as f64 / 1e6;
    println!(r#"{{"ms": {milliseconds:.3}, "resident": {bytes}, "tensors": {tensors}}}"#);
    Ok(())
}

fn map(path: &str) -> Result<Mmap, String> {
    let file = File::open(path).map_err(|e| format!("{path}: {e}"))?;
    // SAFETY: the benchmark made the file, and no other code changes it.
    unsafe { Mmap::map(&file) }.map_err(|e| format!("{path}: {e}"))
}

/// Returns the resident memory of this process in bytes.
fn resident() -> Result<u64, String> {
    let text = fs::read_to_string("/proc/self/statm").map_err(|e| e.to_string())?;
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    Ok(pages.ok_or("/proc/self/statm lacks a second number")? * 4096)
}
