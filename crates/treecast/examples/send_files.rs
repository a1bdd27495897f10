//! Sends files: `send_files INTERFACE RECEIVERS FILE...`. The first line is the ticket.

use std::error::Error;

use treecast::{Group, GroupEvent, Object};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "send_files INTERFACE RECEIVERS FILE...";
    let (interface, receivers) = arguments.next().zip(arguments.next()).ok_or(usage)?;
    let group = Group::builder().interface(interface).wait(receivers.parse()?).start()?;
    println!("{}", group.ticket());

    for file in arguments {
        group.send(Object::file(file).retx_factor(50.0))?;
    }
    let end = group.close();
    for event in group.events() {
        match event {
            GroupEvent::Joined { receiver, .. } => println!("{receiver} has joined"),
            GroupEvent::Done(object) => println!("{} is at {} receivers", object.name, object.complete),
            GroupEvent::Warning(line) => eprintln!("{line}"),
            _ => {}
        }
    }
    if end.wait()?.is_complete() { Ok(()) } else { Err("not every receiver has every file".into()) }
}
