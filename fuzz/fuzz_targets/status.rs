//! What a session answers to `treecast status`: what is read is written and read again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_driver::status::Snapshot;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(snapshot) = serde_json::from_slice::<Snapshot>(bytes) {
        let again = serde_json::to_vec(&snapshot).expect("it can be written");
        assert_eq!(serde_json::from_slice::<Snapshot>(&again).ok(), Some(snapshot));
    }
});
