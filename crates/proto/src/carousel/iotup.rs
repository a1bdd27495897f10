//! The IoT updater's dialect: what one of its frames tells a carousel's receiver.

use treecast_wire::{
    ParseError,
    header::FileId,
    iotup::Frame,
    message::{BeginOfFile, Contents, Digest, Message, TransferType},
};

use crate::object::{Channel, ReceiverInput};

/// Translates a frame of the IoT updater into the inputs of a carousel's receiver: first what the frame says
/// about its file, which is stored as `name`, and then the block that it carries.
///
/// # Errors
/// When `name` cannot be the name of an object.
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
