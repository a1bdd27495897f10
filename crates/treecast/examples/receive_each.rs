//! Is asked about each object, and told of it: `receive_each INTERFACE FOLDER TICKET`. Names that end with .tmp are refused.

use std::error::Error;

use treecast::{Receiver, ReceiverEvent};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, folder, ticket] = arguments.as_slice() else {
        return Err("receive_each INTERFACE FOLDER TICKET".into());
    };
    let receiver = Receiver::builder(ticket.parse()?)
        .interface(interface)
        .folder(folder)
        .accept(|offer| !offer.name().ends_with(".tmp"))
        .on_event(|event| match event {
            ReceiverEvent::Received(object) => println!("{} is there", object.path().display()),
            ReceiverEvent::Failed { name, reason, .. } => println!("{name} failed: {reason}"),
            _ => {}
        })
        .join()?;
    if receiver.finish().wait()?.is_complete() { Ok(()) } else { Err("not everything has come".into()) }
}
