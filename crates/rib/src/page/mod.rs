//! The report for people: tables for a terminal, and a page with plots, each number beside the paper's.

mod html;
mod plots;
pub mod tables;

pub use html::{Findings, render};
