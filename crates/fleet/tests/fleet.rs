//! A manager and agents in one process, with real connections between them.

mod api;
mod faults;
mod hosts;
mod login;
mod metrics;
mod notices;
mod people;
mod support;
mod uploads;
