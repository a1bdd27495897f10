//! Events, progress and results of sessions in full.
//!
//! [`GroupBuilder::run`](crate::GroupBuilder::run) and [`ReceiverBuilder::run`](crate::ReceiverBuilder::run) tell them, and
//! `treecast send --json` and `treecast receive --json` print them. All of them implement serde's traits.
//!
//! They say more with time: a minor version may add events, fields and variants. So match with a wildcard arm and `..`, also where a type
//! does not ask for it.

/// The target of a session's events in the crate `tracing`.
pub use treecast_driver::SESSION_LOG as LOG_TARGET;
pub use treecast_driver::{
    events::Timed,
    files::{Lack, Limit, Shortage},
    hindrance::{Hindrance, Holder},
    receive::{
        Complete, Done as ReceiveDone, LocalProgress, ReceiveEvent, ReceiveProgress, ReceiveSummary, Taken,
        in_a_row,
    },
    send::{
        CarouselEnd, CommandOutcome, Done as SendDone, FanoutProgress, GroupProgress, LocalSending,
        NamedReceiver, Presence, RateProgress, ReceiverProgress, ReceiverState, SendEvent, SendProgress,
        SendSummary, Standing, Sums, WayProgress,
    },
    words::{bytes, counted, in_one_line, nearest, scaled},
};
pub use treecast_proto::fanout::Way;
pub use treecast_wire::message::ObjectKind;
