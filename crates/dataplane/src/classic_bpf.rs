//! Instructions of classic BPF (linux/bpf_common.h), of which filters of packet sockets are made.

/// Two bytes of the frame.
pub const LOAD_HALF: u16 = 0x28;
/// A byte of the frame.
pub const LOAD_BYTE: u16 = 0x30;
/// What was loaded, and a constant.
pub const AND: u16 = 0x54;
pub const JUMP_EQUAL: u16 = 0x15;
pub const JUMP_GREATER: u16 = 0x25;
pub const JUMP_GREATER_OR_EQUAL: u16 = 0x35;
/// How much of the frame is taken.
pub const RETURN: u16 = 0x06;
