//! Tests the adapters of devices, each on a driver that needs only the CPU. For CUDA it is a stand-in, not a driver.

use std::fs::{self, DirEntry};

use crate::steps::{Finished, Steps, in_ci};
use crate::{Result, Workplace, debian, process};

/// Runs the tests of each adapter. CI installs the drivers; without a driver, the tests would try nothing.
pub(crate) fn test(steps: &mut Steps, workplace: &Workplace) {
    steps.try_run("CUDA on a stand-in for its driver", || require(workplace, "dlbridge-cuda"));
    steps.try_run("OpenCL on PoCL", || {
        let found = driver(workplace, &["pocl-opencl-icd", "ocl-icd-libopencl1"], has_opencl)?;
        on(found, || require(workplace, "dlbridge-opencl"))
    });
    steps.try_run("Vulkan and WebGPU on lavapipe", || {
        let found = driver(workplace, &["mesa-vulkan-drivers", "libvulkan1"], has_vulkan)?;
        on(found, || {
            require(workplace, "dlbridge-vulkan").and_then(|_| require(workplace, "dlbridge-wgpu"))
        })
    });
}

/// Returns true if Vulkan's loader and Mesa's driver for the CPU are installed.
fn has_vulkan() -> bool {
    let driver = entries("/usr/share/vulkan/icd.d")
        .any(|file| file.file_name().to_string_lossy().starts_with("lvp_icd"));
    driver && has_library("libvulkan.so.1")
}

/// Returns true if OpenCL's loader and a driver for it are installed.
fn has_opencl() -> bool {
    let driver = entries("/etc/OpenCL/vendors")
        .any(|file| file.file_name().to_string_lossy().ends_with(".icd"));
    driver && has_library("libOpenCL.so.1")
}

fn entries(directory: &str) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(directory).into_iter().flatten().flatten()
}

fn has_library(name: &str) -> bool {
    entries("/usr/lib").any(|place| place.path().join(name).exists())
}

/// Runs tests if their driver is installed.
fn on(driver: Finished, tests: impl FnOnce() -> Result<Finished>) -> Result<Finished> {
    match driver {
        Finished::Passed => tests(),
        missing => Ok(missing),
    }
}

/// Checks that a driver is installed. In CI, installs it.
fn driver(
    workplace: &Workplace,
    packages: &[&str],
    is_there: impl Fn() -> bool,
) -> Result<Finished> {
    if in_ci() {
        return debian::install(workplace, packages, is_there).map(|()| Finished::Passed);
    }
    Ok(match is_there() {
        true => Finished::Passed,
        false => Finished::Notice(format!("Debian has it in the package {}", packages[0])),
    })
}

/// Runs the tests of an adapter, which fail without a device.
fn require(workplace: &Workplace, package: &str) -> Result<Finished> {
    let mut test = workplace.cargo(&["test", "--package", package, "--tests"]);
    process::run(test.env("DLBRIDGE_REQUIRE", "1")).map(|()| Finished::Passed)
}
