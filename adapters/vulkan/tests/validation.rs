//! What the validation layer of Khronos says of the copies: it finds hazards that lavapipe, whose memory is the host's, never
//! shows.
//!
//! Where the layer is not installed (Debian: `vulkan-validationlayers`) nothing is tried, which is a failure where
//! `DLBRIDGE_VALIDATE` is set. With these variables the layer watches the other tests too, and prints what it finds.
//!
//! It does not see what the host reads: the barrier in front of a copy is tested here, and not the one behind it.

#[path = "support/fill.rs"]
mod fill;
mod support;

use std::env;
use std::process::Command;

use dlbridge_vulkan::{TensorExt, to_device};
use fill::fill;
use support::device;

/// They load the layer, and turn on what it checks between submissions, by its older names and its newer ones.
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

/// What another process of this program, which is validated, prints.
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

/// Two submissions that write the same, of which nothing says in which order.
#[test]
#[ignore = "of another process, which the test below starts"]
fn hazard() {
    let Some(device) = device() else { return };
    let tensor = to_device(&[0_u32; 64], &device).unwrap();
    let buffer = tensor.to_buffer().unwrap().handle();
    let queue = device.queue();
    let _both = [1, 2].map(|value| fill(&device, &queue, buffer, [value]));
    drop(queue);
}

/// Copies behind a write that nobody has waited for.
#[test]
#[ignore = "as above"]
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
fn copies_are_without_a_hazard() {
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
