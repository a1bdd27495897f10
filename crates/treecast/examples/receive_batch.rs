//! Receives into memory, and looks for what has come now and then: `receive_batch INTERFACE FOLDER TICKET`. It writes the bytes
//! of each object into the folder, "/" in its name replaced by "_".

use std::{error::Error, fs, path::Path};

use treecast::{ObjectKind, Receiver, ReceiverEvent};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, folder, ticket] = arguments.as_slice() else {
        return Err("receive_batch INTERFACE FOLDER TICKET".into());
    };
    let receiver = Receiver::builder(ticket.parse()?).interface(interface).in_memory().join()?;
    for event in receiver.events() {
        if let ReceiverEvent::Received(object) = event
            && object.kind() == ObjectKind::File
        {
            let path = Path::new(folder).join(object.name().replace('/', "_"));
            fs::write(&path, object.into_bytes()?)?;
            println!("{} is there", path.display());
        }
    }
    if receiver.finish().wait()?.is_complete() { Ok(()) } else { Err("not everything has come".into()) }
}
