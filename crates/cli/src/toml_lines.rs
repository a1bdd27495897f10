//! Lines of TOML texts, as messages name them.

use treecast_host::text::line_of;

/// Says in one line what is wrong with a TOML text: the number of its line, and what the parser says.
pub fn describe(content: &str, error: &toml::de::Error) -> String {
    let line = line_of(content, error.span().map_or(0, |span| span.start));
    format!("{line}: {}", error.message().lines().collect::<Vec<_>>().join(" "))
}
