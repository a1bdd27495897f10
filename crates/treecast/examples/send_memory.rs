//! Sends numbers from memory: `send_memory INTERFACE RECEIVERS COUNT`. The first line is the ticket.

use std::error::Error;

use treecast::{Group, Object};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, receivers, count] = arguments.as_slice() else {
        return Err("send_memory INTERFACE RECEIVERS COUNT".into());
    };
    let group = Group::builder().interface(interface).wait(receivers.parse()?).start()?;
    println!("{}", group.ticket());

    let mut sent = Vec::new();
    for number in 0..count.parse()? {
        group.room().wait();
        let product = Object::bytes(format!("product/{number}"), format!("{number}\n"));
        sent.push(group.send(product.retx_factor(10.0))?);
    }
    let end = group.close();
    let complete = sent.iter().filter(|product| product.wait().is_complete()).count();
    println!("{complete} of {count} products are everywhere");
    if end.wait()?.is_complete() { Ok(()) } else { Err("not every receiver has every product".into()) }
}
