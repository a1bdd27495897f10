//! All tests of this crate that stand outside its sources, as one program: it is linked once.

mod effort;
mod fec;
mod forgers;
mod group_rate;
mod in_vain;
mod local;
mod meeting;
mod periodic_loss;
mod rates;
mod seeds;
mod slower_groups;
mod tfmcc;
mod vcmtp_hostile;
mod vcmtp_performance;
