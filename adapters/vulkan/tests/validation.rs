//! Runs the copies under the Khronos validation layer. It finds hazards that lavapipe never shows, because its memory
//! is host memory.
//!
//! Without the layer (Debian: `vulkan-validationlayers`) the tests are skipped, or fail if `DLBRIDGE_VALIDATE` is set.
//! With the variables below, the layer also checks the other tests and prints its findings.
//!
//! The layer does not see the host's reads, so this tests the barrier before a copy, and not the one after it.

#[path = "support/fill.rs"]
mod fill;
mod support;

use std::env;
use std::process::Command;

use dlbridge_vulkan::{TensorExt, to_device};
use fill::fill;
use support::device;

/// Load the layer, and turn on its checks between submissions, by their older and newer names.
const VARIABLES: [(&str, &str); 4] = [
    ("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation"),
    (
        "VK_LAYER_ENABLES",
        "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT:\
         VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT",
    ),
    ("VK_VALIDATION_VALIDATE_SYNC", "1"),
    ("VK_SYNCVAL_SUBMIT_TIME_VALIDATION", "1"),
];

/// Runs a test of this program in another process under the layer, and returns the output.
fn said(test: &str) -> String {
    let process = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", test, "--nocapture"])
        .envs(VARIABLES)
        .output()
        .unwrap();
    assert!(process.status.success(), "{process:?}");
    let said = [process.stdout, process.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

/// Two unordered submissions that write the same buffer.
#[test]
#[ignore = "the test below starts it in another process"]
fn hazard() {
    let Some(device) = device() else { return };
    let tensor = to_device(&[0_u32; 64], &device).unwrap();
    let buffer = tensor.to_buffer().unwrap().handle();
    let queue = device.queue();
    let _both = [1, 2].map(|value| fill(&device, &queue, buffer, [value]));
    drop(queue);
}

/// Copies after a write that nothing has waited for.
#[test]
#[ignore = "the test below starts it in another process"]
fn copies() {
    let Some(device) = device() else { return };
    for value in 1..4 {
        let tensor = to_device(&[0_u32; 64], &device).unwrap();
        let buffer = tensor.to_buffer().unwrap().handle();
        let _filling = fill(&device, &device.queue(), buffer, [value]);
        let host = tensor.slice(0, 3..9).unwrap().to_host(&device).unwrap();
        assert_eq!(host.view::<u32>().unwrap().to_vec(), [value; 6]);
    }
}

#[test]
fn copies_have_no_hazard() {
    let Some(_) = device() else { return };
    let hazard = said("hazard");
    if !hazard.contains("SYNC-HAZARD") {
        assert!(env::var_os("DLBRIDGE_VALIDATE").is_none(), "no hazard was found: {hazard}");
        return println!("skipped: no layer that finds hazards between submissions");
    }
    let said = said("copies");
    let complaints = ["SYNC-HAZARD", "Validation Error", "VUID-Vk"];
    assert!(!complaints.iter().any(|complaint| said.contains(complaint)), "{said}");
}
