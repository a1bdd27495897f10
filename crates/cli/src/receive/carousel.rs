//! `treecast receive` with a carousel's ticket, and `--dialect iotup`, which needs none.

use std::{net::IpAddr, path::Path, time::Duration};

use treecast_driver::{
    carousel::{self, Dialect},
    files::{Rules, TargetFolder},
    interface::Interface,
    receive::{ReceiveError, ReceiveEvent, ReceiveOptions},
    seal::Secret,
    security::PublicKey,
    status::Role,
    udp::{GroupAddress, Offload},
};
use treecast_wire::{header::SessionId, iotup};

use super::{Args, display::Display, exit_code, rules, time_limit};
use crate::{Outcome, observers::Observers};

pub(super) fn run(args: &Args, options: ReceiveOptions) -> Outcome {
    let mut observers = Observers::start(Role::Receive, args.metrics)?;
    observers.note_ticket(&options.ticket);
    let ticket = options.ticket;
    let (secret, sender_key) = match &ticket.security {
        Some(security) => {
            let key = PublicKey::from_bytes(security.sender_key).map_err(|_| ReceiveError::SenderKey)?;
            let secret = security.secret.ok_or(ReceiveError::NoSecret)?;
            (Some(Secret::from(secret)), Some(key))
        }
        None if options.secure_only => return Err(ReceiveError::Plain.into()),
        None => (None, None),
    };
    let carousel = carousel::ReceiveOptions {
        group: GroupAddress {
            group: ticket.group,
            source: ticket.source,
            interface: interface(args, ticket.group.ip())?,
        },
        session: ticket.session,
        block_len: ticket.block_len,
        fec: ticket.fec,
        dialect: Dialect::Session,
        secret,
        sender_key,
        patience: Some(options.connect_timeout),
        only: options.only,
        offload: options.offload,
    };
    receive(args, carousel, &options.into, observers)
}

/// Receives the one file of an IoT updater, which is named where a ticket would be.
pub(super) fn run_iotup(args: &Args) -> Outcome {
    let group = args.group.ok_or("the IoT updater has no ticket: name its group with --group")?;
    if let Some(hint) = group.hint() {
        remark!("treecast: {hint}");
    }
    let name = args.ticket();
    let name = name.as_str();
    if Path::new(name).file_name() != Some(name.as_ref()) {
        return Err(format!("{name:?} is no plain name for a file: choose its folder with --into").into());
    }
    let carousel = carousel::ReceiveOptions {
        group: GroupAddress {
            group: group.with_default_port(iotup::PORT),
            source: None,
            interface: interface(args, group.address)?,
        },
        session: SessionId(0),
        block_len: iotup::MAX_DATA_LEN as u16,
        fec: false,
        dialect: Dialect::Iotup { name: name.to_owned() },
        secret: None,
        sender_key: None,
        patience: Some(Duration::from_secs(args.connect_timeout)),
        only: None,
        offload: Offload::from_environment()?,
    };
    let mut observers = Observers::start(Role::Receive, args.metrics)?;
    observers.note_iotup(carousel.group.group);
    receive(args, carousel, &args.into, observers)
}

fn receive(args: &Args, options: carousel::ReceiveOptions, into: &Path, mut observers: Observers) -> Outcome {
    let stop = super::stop(args)?;
    // The IoT updater's file has its name from the command line.
    let is_named = options.dialect != Dialect::Session;
    let rules = Rules { hidden: args.hidden || is_named, ..rules(args) };
    let folder = TargetFolder::open(into)?.with_rules(rules);
    let mut display = Display::new(args.json, options.block_len);
    let mut on_event = |event: ReceiveEvent| {
        observers.note_receive(&event);
        display.show(&event);
    };
    let summary = carousel::receive(options, folder, &stop, &mut on_event)?;
    display.finish(&summary);
    exit_code(&summary, time_limit(&stop))
}

fn interface(args: &Args, group: IpAddr) -> Result<Interface, Box<dyn std::error::Error>> {
    Ok(match &args.interface {
        Some(name) => Interface::named(name)?,
        None => Interface::by_route(Some(group))?,
    })
}
