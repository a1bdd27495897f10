//! The IoT updater's dialect: what one of its frames tells a carousel's receiver.

use treecast_wire::{
    ParseError,
    header::FileId,
    iotup::Frame,
    message::{BeginOfFile, Contents, Digest, Message, TransferType},
};

use crate::object::{Channel, ReceiverInput};

/// The inputs that a frame of the only file stands for: what it says about the file, which is to be
/// called `name`, and then its block.
///
/// # Errors
/// When `name` is no name of an object.
pub fn iotup_inputs(file: FileId, name: &str, frame: &Frame) -> Result<[ReceiverInput; 4], ParseError> {
    let begin = BeginOfFile::new(TransferType::DiskToDisk, frame.file_size, name)?;
    let message = |message| ReceiverInput::Message { from: Channel::Group, file, message };
    Ok([
        message(Message::Contents(Contents::new(1)?)),
        message(Message::BeginOfFile(begin)),
        message(Message::Digest(Digest::unsigned(frame.hash))),
        ReceiverInput::Blocks { from: Channel::Group, file, range: frame.range() },
    ])
}
