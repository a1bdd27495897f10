//! The UDP server and its clients.

use std::{net::SocketAddr, ops::Range, time::Duration};

use rand::RngExt;
use treecast_proto::{
    Instant, Step,
    unicast::udp::{
        Client, ClientConfig, ClientInput, ClientTransmit, Server, ServerConfig, ServerInput, ServerTransmit,
    },
};
use treecast_wire::unicast::{Reply, Request};

use super::{Copy, DEADLINE, MAX_EVENTS, Stage, draw_file, draw_rate};
use crate::{
    judge::{Judge, Verdict},
    network::{Link, generator, transmission_time},
    session::scenario::{draw_path, millis, pick},
    trace::Node,
    world::{self, Agenda, Scene},
};

/// The time after which a client that has heard nothing new asks again.
const TIMEOUT: Duration = Duration::from_millis(300);

/// The number of timeouts after which a client gives up. With half of all packets lost each way, one of four
/// requests is answered; a burst of losses lasts longer.
const MAX_TIMEOUTS: u32 = 100;

/// Runs the scenario of a seed and judges it; `verbose` keeps the lines of the trace.
pub fn run_seed(seed: u64, verbose: bool) -> Verdict {
    Service::new(seed, verbose).run()
}

#[derive(Debug)]
enum Event {
    Start(usize),
    Request(usize, Request),
    Reply(usize, Reply),
    Hashed(usize),
}

/// The server, its clients, and the links between them.
struct Service {
    stage: Stage<Event>,
    block_len: u64,
    rate_bps: u64,
    server: Server,
    free_at: Instant,
    clients: Vec<ClientNode>,
}

struct ClientNode {
    /// The client's machine. `None` before it starts.
    machine: Option<Client>,
    copy: Copy,
    to_server: Link,
    from_server: Link,
}

impl Scene for Service {
    type Node = Node;
    type Event = Event;

    fn agenda(&mut self) -> &mut Agenda<Node, Event> {
        &mut self.stage.agenda
    }

    fn wake(&mut self, now: Instant, node: Node) {
        match node {
            Node::Sender => self.pump_server(now),
            Node::Receiver(number) => self.pump_client(now, number),
        }
    }

    fn happen(&mut self, now: Instant, event: Event) {
        match event {
            Event::Request(number, request) => {
                self.server.handle(now, ServerInput::Request { client: address(number), request });
                self.pump_server(now);
            }
            Event::Start(number) => {
                let config = ClientConfig {
                    timeout: TIMEOUT,
                    first_reply_timeout: TIMEOUT * MAX_TIMEOUTS,
                    max_timeouts: MAX_TIMEOUTS,
                    hash_attempts: 3,
                };
                self.clients[number].machine = Some(Client::new(config));
                self.pump_client(now, number);
            }
            Event::Reply(number, reply) => self.client(now, number, ClientInput::from(&reply)),
            Event::Hashed(number) => {
                if let Some(report) = self.clients[number].copy.hashed() {
                    self.client(now, number, ClientInput::Storage(report));
                }
            }
        }
    }
}

impl Service {
    fn new(seed: u64, verbose: bool) -> Self {
        let mut random = generator(seed, 0);
        let block_len: u16 = *pick(&mut random, &[200, 512, 1402]);
        let file = draw_file(&mut random, block_len.into());
        let config = ServerConfig {
            file_size: file.len() as u64,
            max_run_len: u32::from(block_len) * random.random_range(1..=45),
            max_clients: random.random_range(2..=6),
        };
        let mut agenda = Agenda::default();
        let clients = (0..random.random_range(1..=6)).map(|number| {
            agenda.at(Instant::ZERO + millis(random.random_range(0..200)), Event::Start(number));
            ClientNode {
                machine: None,
                copy: Copy::draw(&mut random, file.len()),
                to_server: Link::new(draw_path(&mut random), generator(seed, 100 + number as u64)),
                from_server: Link::new(draw_path(&mut random), generator(seed, 200 + number as u64)),
            }
        });
        let clients = clients.collect();
        Self {
            stage: Stage::new(file, agenda, verbose),
            block_len: block_len.into(),
            rate_bps: draw_rate(&mut random),
            server: Server::new(config),
            free_at: Instant::ZERO,
            clients,
        }
    }

    fn run(mut self) -> Verdict {
        let end = world::run(&mut self, Instant::ZERO + DEADLINE, MAX_EVENTS);
        let mut judge = Judge::default();
        judge.ended(end, self.stage.agenda.now(), false);
        for (number, client) in self.clients.iter().enumerate() {
            client.copy.judge(&mut judge, number, &self.stage.file);
        }
        Verdict { trace: self.stage.trace, faults: judge.into_faults() }
    }

    /// Sends as much as the server's link takes now, and asks to be woken when it takes more.
    fn pump_server(&mut self, now: Instant) {
        while now >= self.free_at {
            match self.server.poll(now) {
                Step::Transmit(ServerTransmit { to, range }) => {
                    self.stage.note(Node::Sender, "sends data", range.clone());
                    self.reply(now, usize::from(to.port()), range);
                    self.stage.agenda.wake(Node::Sender, self.free_at);
                }
                Step::Event(_) => {}
                Step::Wait(..) => return,
            }
        }
    }

    fn reply(&mut self, now: Instant, number: usize, range: Range<u64>) {
        let mut start = range.start;
        loop {
            let end = (start + self.block_len).min(range.end);
            let reply = Reply::new(self.stage.header, start, (end - start) as u16).expect("within the file");
            let len = 48 + Reply::HEADER_LEN + (end - start) as usize;
            self.free_at = self.free_at.max(now) + transmission_time(len, self.rate_bps);
            for arrival in self.clients[number].from_server.pass(now).into_iter().flatten() {
                self.stage.agenda.at(arrival.at, Event::Reply(number, reply));
            }
            start = end;
            if start >= range.end {
                return;
            }
        }
    }

    fn client(&mut self, now: Instant, number: usize, input: ClientInput) {
        if let Some(machine) = &mut self.clients[number].machine {
            machine.handle(now, input);
            self.pump_client(now, number);
        }
    }

    fn pump_client(&mut self, now: Instant, number: usize) {
        let node = Node::Receiver(number);
        loop {
            let Some(machine) = &mut self.clients[number].machine else { return };
            match machine.poll(now) {
                Step::Transmit(transmit) => self.carry_out(now, number, transmit),
                Step::Event(event) => {
                    self.stage.note(node, "ends", 0..0);
                    self.clients[number].copy.end = Some(event);
                }
                Step::Wait(deadline, _) => {
                    return deadline.into_iter().for_each(|at| self.stage.agenda.wake(node, at));
                }
            }
        }
    }

    fn carry_out(&mut self, now: Instant, number: usize, transmit: ClientTransmit) {
        match transmit {
            ClientTransmit::Request(request) => {
                for arrival in self.clients[number].to_server.pass(now).into_iter().flatten() {
                    self.stage.agenda.at(arrival.at, Event::Request(number, request));
                }
                self.stage.note(
                    Node::Receiver(number),
                    "requests",
                    request.range(self.stage.header.file_size),
                );
            }
            ClientTransmit::Storage(task) => {
                let client = &mut self.clients[number];
                let report = self.stage.store(number, &mut client.copy, task, Event::Hashed(number));
                if let Some((report, machine)) = report.zip(client.machine.as_mut()) {
                    machine.handle(now, ClientInput::Storage(report));
                }
            }
        }
    }
}

/// A client's address. Its port is its number.
fn address(number: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], number as u16))
}
