//! Instructions of classic BPF (linux/bpf_common.h), for filters of packet sockets.

/// Loads four bytes of the frame.
pub const LOAD_WORD: u16 = 0x20;
/// Loads two bytes of the frame.
pub const LOAD_HALF: u16 = 0x28;
/// Loads a byte of the frame.
pub const LOAD_BYTE: u16 = 0x30;
/// Combines the loaded value and a constant, bit by bit.
pub const AND: u16 = 0x54;
pub const JUMP_EQUAL: u16 = 0x15;
pub const JUMP_GREATER: u16 = 0x25;
pub const JUMP_GREATER_OR_EQUAL: u16 = 0x35;
/// Ends the filter, and returns how many bytes of the frame are kept.
pub const RETURN: u16 = 0x06;
