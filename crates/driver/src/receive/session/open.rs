//! Opens a session.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use treecast_host::{
    poller::{Interest, Poller},
    tcp_info,
    wake::Waker,
};
use treecast_proto::{
    Instant, carousel,
    object::{Parts, ReceiverInput},
    policy,
    repair::Receiver,
    tfmcc,
    vcmtp::{self, Notification},
};
use treecast_wire::{
    header::FileId,
    ticket::{Repair, Ticket},
};

use super::{
    super::{
        Dialect, ReceiveError, ReceiveEvent, ReceiveOptions, ReceiveSummary, join::Joined, outbox::Outbox,
        refusal::Refusal,
    },
    CONTROL, Carried, Ears, GROUP, Groups, HASH_ATTEMPTS, Hearing, Lengths, Lifeline, Reporter, STORE,
    Session, Source, Wire,
    backlog::Backlog,
    delivery::{Delivery, Figures, Handing, Line, Storing, Trust},
    members::Members,
};
use crate::{
    clock::{self, Clock},
    connection::Connection,
    files::{Intake, Journal, Leftovers, SmallObjects, TargetFolder},
    seal::{Opener, Secret},
    security::PublicKey,
};

impl<'a> Session<'a> {
    pub fn open(
        options: &ReceiveOptions,
        folder: TargetFolder,
        (journal, leftovers): (Journal, Leftovers),
        mut joined: Joined,
        mut carried: Carried,
        on_event: &'a mut dyn FnMut(ReceiveEvent),
    ) -> Result<Self, ReceiveError> {
        let ticket = &options.ticket;
        let (poller, clock) = (Poller::new()?, Clock::start());
        let store = Storing::open(options, folder, (journal, leftovers), &poller)?;
        let resumes = !store.leftovers.is_empty() || store.small.has_left();
        let members = Members::open(options, &joined.interface)?;
        let reporter = Reporter::open(options, &joined.interface);
        let reports = matches!(reporter, Ok(Some(_)));
        let copies_port = joined.socket.local_addr()?.port();
        let delivery = Delivery {
            on_event,
            machine: match &members {
                Some(members) => members.machine(options, copies_port)?,
                None => machine(options, joined.buffer_bytes, resumes, reports),
            },
            trust: trust(ticket, joined.sender_key),
            line: Line::new(options, joined.connection.as_ref(), reports),
            members: None,
            store,
            figures: Figures::new(clock.now(), std::mem::take(&mut carried.summary)),
            backlog: Backlog::default(),
            effects: Vec::new(),
            session: ticket.session,
            block_len: ticket.block_len,
            carried,
            now: clock.now(),
            clock,
        };
        let wire = Wire::open(options, &mut joined, &poller)?;
        let mut session = Self { hearing: Hearing::open(options, joined, &poller)?, wire, delivery, poller };
        match reporter {
            Ok(reporter) => session.wire.reporter = reporter,
            Err(error) => {
                let line =
                    format!("cannot tell the sender what is lacking: {error}; it sends everything later");
                (session.delivery.on_event)(ReceiveEvent::Warning(line.into()));
            }
        }
        if ticket.repair == Repair::Carousel {
            session.join_slower(ticket.groups)?;
        }
        if let Some(members) = members {
            session.join_members(members)?;
        }
        let connection = session.wire.connection.as_ref();
        let round_trip = connection.and_then(tcp_info::shortest_round_trip).unwrap_or_default();
        let Delivery { machine, clock, .. } = &mut session.delivery;
        machine.handle(clock.now(), ReceiverInput::Connected { round_trip });
        Ok(session)
    }
}

impl Storing {
    /// Starts the storage.
    fn open(
        options: &ReceiveOptions,
        folder: TargetFolder,
        (journal, leftovers): (Journal, Leftovers),
        poller: &Poller,
    ) -> Result<Self, ReceiveError> {
        let mut small = SmallObjects::resuming(&journal, &leftovers);
        if options.dialect != Dialect::Session {
            // It may have to be hashed in another way than objects in memory are.
            small.leave_to_store(FileId::new(options.ticket.session, 0));
        }
        let store_waker = Waker::new()?;
        poller.add(&store_waker, STORE, Interest::Read)?;
        Ok(Self {
            intake: Intake::start(folder.clone(), journal, store_waker.clone(), small.buffers())?,
            folder,
            is_feed: options.ticket.is_feed,
            compares: options.dialect != Dialect::Session,
            leftovers,
            small,
            store_waker,
            chooser: options.chooser.clone(),
            handing: Handing::new(options.taker.clone()),
            begins: BTreeMap::new(),
            seeded_next: BTreeMap::new(),
            cramped: BTreeSet::new(),
            remedies: BTreeMap::new(),
            full_since: None,
            full_time: Duration::ZERO,
        })
    }
}

impl Figures {
    fn new(now: Instant, summary: ReceiveSummary) -> Self {
        Self { next_progress: now, summary, ..Self::default() }
    }
}

impl Hearing {
    fn open(options: &ReceiveOptions, joined: Joined, poller: &Poller) -> Result<Self, ReceiveError> {
        let ticket = &options.ticket;
        let mut source = Source::new(options, joined.socket, opener(ticket)?)?;
        if ticket.has_lanes() {
            source.take_lane(0);
        }
        let spare = joined.group_socket.map(|socket| source.prepare(socket)).transpose()?;
        let ears = ticket.fanout.chooses().then(|| Ears::new(spare));
        if source.can_read() {
            poller.add(source.socket(), GROUP, Interest::Read)?;
            ears.iter().try_for_each(|ears| ears.add_to(poller))?;
        }
        Ok(Self {
            fanout: ticket.fanout,
            source,
            ears,
            groups: Groups::new(ticket, joined.interface, joined.membership_time),
            congestion: tfmcc::Receiver::new(clock::seed()),
            lengths: Lengths::default(),
            parts: Parts::default(),
            dropped: 0,
        })
    }
}

impl Wire {
    fn open(options: &ReceiveOptions, joined: &mut Joined, poller: &Poller) -> Result<Self, ReceiveError> {
        let connection = joined.connection.take();
        connection.iter().try_for_each(|connection| poller.add(connection, CONTROL, Interest::Read))?;
        Ok(Self {
            lifeline: Lifeline::new(connection.as_ref().and_then(|connection| connection.local())),
            reporter: None,
            waits_for_room: false,
            refusal: Refusal::new(options),
            connection,
        })
    }
}

impl Line {
    fn new(options: &ReceiveOptions, connection: Option<&Connection>, reports: bool) -> Self {
        Self {
            sender: connection.map_or(options.ticket.group, Connection::peer),
            outbox: Outbox::default(),
            remedy: None,
            reports,
            closes: false,
            is_over: false,
            is_welcome: connection.is_none(),
            first: 0,
            comes_back: connection.is_some() && !options.reconnect.is_zero(),
            is_time_up: false,
            // The IoT updater's frames do not say of which session they are, and nobody could go on with them.
            discards: options.discards || options.dialect != Dialect::Session,
            leaves_rest: false,
            listens: false,
            closed: false,
        }
    }
}

/// The trust in a session whose sender has this key. `sender` is `None` in a plain session.
fn trust(ticket: &Ticket, sender: Option<PublicKey>) -> Trust {
    match ticket.repair {
        Repair::Carousel => Trust::in_group(sender, ticket.block_len),
        Repair::Local => Trust::in_local_group(sender, ticket.block_len),
        Repair::None | Repair::After | Repair::Nack => Trust::in_connection(sender),
    }
}

/// The opener of sealed packets, which has keys that the connection tells, or the ticket's secret. `None` where
/// packets are plain.
fn opener(ticket: &Ticket) -> Result<Option<Opener>, ReceiveError> {
    let Some(security) = &ticket.security else { return Ok(None) };
    Ok(Some(match ticket.repair {
        Repair::Carousel | Repair::Local => {
            Opener::with_secret(Secret::from(security.secret.ok_or(ReceiveError::NoSecret)?))
        }
        Repair::None | Repair::After | Repair::Nack => Opener::for_group(),
    }))
}

/// The machine of the ticket's repair. `reports`: a carousel's sender can be told what is lacking. Without a way to it, reports would
/// wait for ever.
fn machine(options: &ReceiveOptions, buffer_bytes: usize, resumes: bool, reports: bool) -> Receiver {
    let ticket = &options.ticket;
    let repair = match ticket.repair {
        Repair::None => vcmtp::Repair::None,
        Repair::After => vcmtp::Repair::After,
        // A member's machine is made with its address ([`Members::machine`]).
        Repair::Nack | Repair::Local => vcmtp::Repair::Nack,
        Repair::Carousel => {
            let config = carousel::ReceiverConfig {
                session: ticket.session,
                block_len: ticket.block_len,
                fec: ticket.fec,
                has_chunk_hashes: options.dialect == Dialect::Session,
                hash_attempts: HASH_ATTEMPTS,
                reports: reports.then(clock::seed),
                patience: Some(options.connect_timeout),
            };
            return Receiver::Carousel(Box::new(carousel::Receiver::new(config)));
        }
    };
    let config = vcmtp::ReceiverConfig {
        session: ticket.session,
        repair,
        fec: ticket.fec,
        digest_from_group: ticket.security.is_some(),
        block_len: ticket.block_len,
        notification: match options.chooser.is_some() || options.rules.keep_existing {
            true => Notification::PerFile,
            false => Notification::Batched,
        },
        progress_bytes: (buffer_bytes / policy::REPORT_SHARE).max(1) as u64,
        progress_interval: policy::REPORT_INTERVAL,
        keepalive: policy::KEEPALIVE,
        stall_limit: options.stall_limit,
        resumes,
    };
    Receiver::Vcmtp(Box::new(vcmtp::Receiver::new(config)))
}
