//! Machines without a device, without a driver, or without a loader.

mod support;

use std::env;
use std::process::Command;

use dlbridge_vulkan::{Device, Error};
use support::device;

#[test]
fn missing_device_is_refused() {
    let Some(device) = device() else { return };
    assert_eq!(device.id(), 0);
    assert!(format!("{device:?}").starts_with("Device { id: 0, queue_family: "));
    for absent in [99, -1, i32::MIN] {
        match Device::new(absent) {
            Err(Error::NoDevice { id, count }) => assert_eq!((id, count > 0), (absent, true)),
            other => panic!("{other:?}"),
        }
    }
}

/// Runs `say` in another process of this program with one variable set, and returns its output.
fn said_with(variable: &str, value: &std::path::Path) -> String {
    let process = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "say", "--nocapture"])
        .env(variable, value)
        .output()
        .unwrap();
    assert!(process.status.success(), "{process:?}");
    String::from_utf8(process.stdout).unwrap()
}

/// Prints the first device, in that process.
#[test]
#[ignore = "the tests below start it in another process"]
fn say() {
    match Device::new(0) {
        Ok(device) => println!("said: {device:?}"),
        Err(error @ Error::NoLoader(_)) => println!("said: no loader: {error}"),
        Err(Error::Vulkan(code)) => println!("said: {code:?}: {}", Error::Vulkan(code)),
        Err(error) => println!("said: {error}"),
    }
}

#[test]
fn new_without_a_driver_returns_vulkans_error() {
    let Some(_) = device() else { return };
    let said = said_with("VK_ICD_FILENAMES", "/nowhere/driver.json".as_ref());
    assert!(said.contains("said: ERROR_INCOMPATIBLE_DRIVER: Vulkan: "), "{said}");
    assert!(said.contains("code -9)"), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn new_without_a_loader_returns_no_loader() {
    let folder = env::temp_dir().join(format!("dlbridge-vulkan-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    // The search finds this file first, and it is not a library.
    std::fs::write(folder.join("libvulkan.so.1"), "").unwrap();
    let said = said_with("LD_LIBRARY_PATH", &folder);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(said.contains("said: no loader: the Vulkan loader cannot be opened"), "{said}");
}
