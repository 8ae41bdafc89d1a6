//! Where there is no device, no driver, or no loader.

mod support;

use std::env;
use std::process::Command;

use dlbridge_vulkan::{Device, Error};
use support::device;

#[test]
fn a_device_that_is_not_there_is_refused() {
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

/// What another process of this program, which has a variable set, says of its first device.
fn said_with(variable: &str, value: &std::path::Path) -> String {
    let process = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "say", "--nocapture"])
        .env(variable, value)
        .output()
        .unwrap();
    assert!(process.status.success(), "{process:?}");
    String::from_utf8(process.stdout).unwrap()
}

/// What the other process runs.
#[test]
#[ignore = "of another process, which the tests beside it start"]
fn say() {
    match Device::new(0) {
        Ok(device) => println!("said: {device:?}"),
        Err(error @ Error::NoLoader(_)) => println!("said: no loader: {error}"),
        Err(Error::Vulkan(code)) => println!("said: {code:?}: {}", Error::Vulkan(code)),
        Err(error) => println!("said: {error}"),
    }
}

#[test]
fn without_a_driver_vulkan_says_so() {
    let Some(_) = device() else { return };
    let said = said_with("VK_ICD_FILENAMES", "/nowhere/driver.json".as_ref());
    assert!(said.contains("said: ERROR_INCOMPATIBLE_DRIVER: Vulkan: "), "{said}");
    assert!(said.contains("code -9)"), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn without_a_loader_there_is_an_error() {
    let folder = env::temp_dir().join(format!("dlbridge-vulkan-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    // Found first, and no library.
    std::fs::write(folder.join("libvulkan.so.1"), "").unwrap();
    let said = said_with("LD_LIBRARY_PATH", &folder);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(said.contains("said: no loader: the Vulkan loader cannot be opened"), "{said}");
}
