//! Values as JSON, as they are sent, kept and signed.

use serde::{Serialize, de::DeserializeOwned};

/// Returns the text of a value.
pub fn text_of<T: Serialize>(value: &T) -> String {
    // Our values have string keys and finite numbers only, so that each has a text.
    serde_json::to_string(value).unwrap_or_default()
}

/// Returns the word of a value that is one, such as a state or a role.
pub fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Reads the word of a value.
///
/// # Errors
/// If it is none of its words.
pub fn of_word<T: DeserializeOwned>(word: &str) -> Result<T, String> {
    serde_json::from_value(word.into()).map_err(|error| error.to_string())
}

/// Reads a value.
///
/// # Errors
/// What is wrong with the text.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}
