//! The TCP server and its clients.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use treecast_proto::{
    Instant, Step,
    unicast::tcp::{
        Client, ClientConfig, ClientInput, ClientTransmit, ConnectionId, Server, ServerConfig, ServerInput,
        ServerTransmit,
    },
};
use treecast_wire::unicast::FileHeader;

use super::{Copy, Stage, World as _, draw_file, draw_rate};
use crate::{
    Verdict,
    network::{Connection, generator},
    schedule::Schedule,
    trace::Node,
    vcmtp::scenario::millis,
};

const RETRY_DELAY: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(10);
const ATTEMPTS: u32 = 3;

/// The number of bytes that arrive at once.
const PIECE_LEN: usize = 1400;

/// Runs the scenario of a seed and judges it; `verbose` keeps the lines of the trace.
pub fn run_seed(seed: u64, verbose: bool) -> Verdict {
    World::new(seed, verbose).run()
}

/// A fault of one connection.
#[derive(Debug, Clone, Copy)]
enum Break {
    /// The connection breaks after this many bytes of the file.
    Closes(usize),
    /// Nothing arrives any more after this many bytes of the file.
    Stalls(usize),
}

#[derive(Debug)]
enum Event {
    Start(usize),
    /// A connection reaches the server.
    Arrive(ConnectionId),
    /// Something arrives at a client on a connection.
    Come(usize, ConnectionId, ClientInput),
    /// The server has written everything, or its connection broke.
    Finished(ConnectionId, Option<String>),
    Hashed(usize),
    WakeClient(usize),
}

struct World {
    random: ChaCha8Rng,
    stage: Stage<Event>,
    server: Server,
    clients: Vec<ClientNode>,
    /// The client of each connection.
    connections: Vec<usize>,
}

struct ClientNode {
    machine: Option<Client>,
    copy: Copy,
    rate_bps: u64,
    delay: Duration,
    /// The connection in use.
    connection: Option<ConnectionId>,
    /// The number of the client's connections that had faults.
    broken: u32,
    wake_at: Option<Instant>,
}

impl super::World for World {
    type Event = Event;

    fn stage(&mut self) -> &mut Stage<Event> {
        &mut self.stage
    }

    fn event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Start(number) => {
                let config = ClientConfig { attempts: ATTEMPTS, retry_delay: RETRY_DELAY, timeout: TIMEOUT };
                self.clients[number].machine = Some(Client::new(config));
                self.pump_client(now, number);
            }
            Event::Arrive(client) => {
                self.server.handle(now, ServerInput::Connected { client });
                self.pump_server(now);
            }
            Event::Finished(client, failure) => {
                self.server.handle(now, ServerInput::Finished { client, failure });
                self.pump_server(now);
            }
            // Bytes under way on a connection that the client has closed are lost.
            Event::Come(number, connection, input) if self.clients[number].connection == Some(connection) => {
                self.client(now, number, input);
            }
            Event::Come(..) => {}
            Event::Hashed(number) => {
                if let Some(report) = self.clients[number].copy.hashed() {
                    self.client(now, number, ClientInput::Storage(report));
                }
            }
            Event::WakeClient(number) if self.clients[number].wake_at == Some(now) => {
                self.clients[number].wake_at = None;
                self.pump_client(now, number);
            }
            Event::WakeClient(_) => {}
        }
    }
}

impl World {
    fn new(seed: u64, verbose: bool) -> Self {
        let mut random = generator(seed, 0);
        let file = draw_file(&mut random, PIECE_LEN);
        let config = ServerConfig { max_active: random.random_range(1..=4), max_waiting: 8 };
        let mut schedule = Schedule::default();
        let clients = (0..random.random_range(1..=6)).map(|number| {
            schedule.at(Instant::ZERO + millis(random.random_range(0..200)), Event::Start(number));
            ClientNode {
                machine: None,
                copy: Copy::draw(&mut random, file.len()),
                rate_bps: draw_rate(&mut random),
                delay: millis(random.random_range(0..40)),
                connection: None,
                broken: 0,
                wake_at: None,
            }
        });
        let clients = clients.collect();
        Self {
            random,
            stage: Stage::new(file, schedule, verbose),
            server: Server::new(config),
            clients,
            connections: Vec::new(),
        }
    }

    fn run(mut self) -> Verdict {
        let mut faults: Vec<String> = self.run_to_end().into_iter().collect();
        for (number, client) in self.clients.iter().enumerate() {
            // A damaged copy costs an attempt, too.
            let may_fail = client.broken > 0;
            let fault = client.copy.faults(&self.stage.file, may_fail);
            faults.extend(fault.map(|fault| format!("client {number}: {fault}")));
        }
        Verdict { trace: self.stage.trace, faults }
    }

    fn pump_server(&mut self, now: Instant) {
        loop {
            match self.server.poll(now) {
                Step::Transmit(ServerTransmit::Serve { client }) => self.serve(now, client),
                Step::Transmit(ServerTransmit::Refuse { client }) => {
                    let number = self.connections[client.0 as usize];
                    self.clients[number].broken += 1;
                    self.come(now, client, disconnected("refused"));
                }
                Step::Event(_) => {}
                Step::Wait(..) => return,
            }
        }
    }

    /// Writes header and file into a connection, which may break.
    fn serve(&mut self, now: Instant, client: ConnectionId) {
        let number = self.connections[client.0 as usize];
        let fate = self.draw_break();
        let node = &mut self.clients[number];
        node.broken += u32::from(fate.is_some());
        let mut line = Connection::new(node.delay, node.rate_bps);
        let until = match fate {
            Some(Break::Closes(position) | Break::Stalls(position)) => position,
            None => self.stage.file.len(),
        };
        let mut arrival = line.send(now, FileHeader::LEN);
        self.come(arrival, client, ClientInput::Header(self.stage.header));
        let mut position = 0;
        while position < until {
            let len = PIECE_LEN.min(until - position);
            arrival = line.send(now, len);
            self.come(arrival, client, ClientInput::Data { len: len as u64 });
            position += len;
        }
        let failure = match fate {
            Some(Break::Stalls(_)) => Some("it has taken nothing".to_owned()),
            Some(Break::Closes(_)) => {
                self.come(arrival, client, disconnected("broken"));
                Some("connection reset".to_owned())
            }
            None => {
                self.come(arrival, client, disconnected("the server has closed too early"));
                None
            }
        };
        self.stage.schedule.at(line.writable_at(), Event::Finished(client, failure));
    }

    fn draw_break(&mut self) -> Option<Break> {
        let breaks = self.random.random_bool(0.15) && !self.stage.file.is_empty();
        let position = self.random.random_range(0..self.stage.file.len().max(1));
        let stalls = self.random.random_bool(0.3);
        breaks.then_some(if stalls { Break::Stalls(position) } else { Break::Closes(position) })
    }

    fn come(&mut self, at: Instant, connection: ConnectionId, input: ClientInput) {
        let number = self.connections[connection.0 as usize];
        self.stage.schedule.at(at, Event::Come(number, connection, input));
    }

    fn client(&mut self, now: Instant, number: usize, input: ClientInput) {
        if let Some(machine) = &mut self.clients[number].machine {
            machine.handle(now, input);
            self.pump_client(now, number);
        }
    }

    fn pump_client(&mut self, now: Instant, number: usize) {
        loop {
            let Some(machine) = &mut self.clients[number].machine else { return };
            match machine.poll(now) {
                Step::Transmit(transmit) => self.carry_out(now, number, transmit),
                Step::Event(event) => {
                    self.stage.note(Node::Receiver(number), "ends", 0..0);
                    self.clients[number].copy.end = Some(event);
                }
                Step::Wait(deadline, _) => {
                    if deadline != self.clients[number].wake_at {
                        self.clients[number].wake_at = deadline;
                        deadline.inspect(|at| self.stage.schedule.at(*at, Event::WakeClient(number)));
                    }
                    return;
                }
            }
        }
    }

    fn carry_out(&mut self, now: Instant, number: usize, transmit: ClientTransmit) {
        match transmit {
            ClientTransmit::Connect => self.connect(now, number),
            ClientTransmit::Disconnect => self.clients[number].connection = None,
            ClientTransmit::Storage(task) => {
                let client = &mut self.clients[number];
                let report = self.stage.store(number, &mut client.copy, task, Event::Hashed(number));
                if let Some((report, machine)) = report.zip(client.machine.as_mut()) {
                    machine.handle(now, ClientInput::Storage(report));
                }
            }
        }
    }

    fn connect(&mut self, now: Instant, number: usize) {
        let connection = ConnectionId(self.connections.len() as u64);
        self.connections.push(number);
        let client = &mut self.clients[number];
        client.connection = Some(connection);
        self.stage.schedule.at(now + client.delay, Event::Arrive(connection));
        self.stage
            .schedule
            .at(now + client.delay * 2, Event::Come(number, connection, ClientInput::Connected));
        self.stage.note(Node::Receiver(number), "connects", 0..0);
    }
}

fn disconnected(reason: &str) -> ClientInput {
    ClientInput::Disconnected { reason: reason.to_owned() }
}
