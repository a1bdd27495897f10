//! Plots as SVG, each able to stand alone: a title that says what is shown, units on the axes, a
//! legend, and no font or style sheet from elsewhere.
//!
//! A delivery has one colour and one mark in all plots, from a palette that stays distinct for
//! colour-blind eyes.

mod axis;
mod canvas;
mod compare;
mod events;
mod feed;
pub mod generic;
mod model;
mod over_time;
mod palette;
mod run_time;
mod server;
mod sharing;
mod use_case;

pub use compare::{Pair, beside_the_paper};
pub use events::over_events;
pub use feed::{FeedPoint, FeedQuantity, feed};
pub use model::{ThroughputLine, server_cpu, throughput_by_size, time_beside_model};
pub use over_time::{completions, router_traffic, server_rate};
pub use palette::{Ink, Mark, Style, Styles, style_of};
pub use run_time::{run_time_by_clients, run_time_by_schedule, run_time_by_size};
pub use server::{server_copies, server_load_by_clients, server_rate_by_clients};
pub use sharing::{link_loss, link_queue, link_rates};
pub use use_case::{OverTime, Quantity, by_link, by_receivers, over_time, savings};

/// A plot: SVG that can be written to a file as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// A name for a file, e.g. `run-time-S1L20`.
    pub name: String,
    pub title: String,
    pub svg: String,
}
