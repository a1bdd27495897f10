//! The form of events in the lines of `--json`, as far as serde does not provide it.
//!
//! Each event is one type with `Serialize` and `Deserialize`: [`crate::send::SendEvent`],
//! [`crate::receive::ReceiveEvent`], [`crate::unicast::FetchEvent`], [`crate::unicast::ServerEvent`],
//! [`crate::explicit::event::MeadEvent`] and [`crate::status::Snapshot`]. Programs print them with `treecast
//! ... --json`, and experiments read the same types.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// An event and the time at which its program told it.
#[derive(Debug, Clone, Serialize)]
pub struct Timed<E> {
    #[serde(flatten)]
    pub event: E,
    /// Seconds since the program began. `None` for events that are told without their time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl<E: DeserializeOwned> Timed<E> {
    /// Parses one line of `--json`.
    ///
    /// # Errors
    /// If the line is no JSON, or is an event of another kind.
    pub fn read(line: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Stamp {
            #[serde(default)]
            seconds: Option<f64>,
        }
        let Stamp { seconds } = serde_json::from_str(line)?;
        Ok(Self { event: serde_json::from_str(line)?, seconds })
    }
}

/// A value as the text that it displays as.
pub(crate) mod as_text {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr,
        T::Err: Display,
    {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A value that may be absent as the text that it displays as, or `null`.
pub(crate) mod as_optional_text {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(T::to_string).serialize(serializer)
    }

    pub fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr,
        T::Err: Display,
    {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

/// A line of text as the field `text` of its event.
pub(crate) mod as_field_text {
    use std::borrow::Cow;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::remedies::Advised;

    #[derive(Serialize, Deserialize)]
    struct Line<'a> {
        text: Cow<'a, str>,
    }

    pub fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        Line { text: text.into() }.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Advised, D::Error> {
        Line::deserialize(deserializer).map(|line| line.text.into())
    }
}

/// A time as seconds with a fraction.
pub mod as_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_secs_f64())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A path as text, with replacement characters where it is not UTF-8.
pub(crate) mod as_path_text {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&path.display())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        PathBuf::deserialize(deserializer)
    }
}

/// Failures as a list of objects with `name` and `reason`.
pub(crate) mod as_reasons {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Failure<T> {
        name: T,
        reason: T,
    }

    pub fn serialize<S: Serializer>(failures: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(failures.iter().map(|(name, reason)| Failure { name, reason }))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, String)>, D::Error> {
        let failures = Vec::<Failure<String>>::deserialize(deserializer)?;
        Ok(failures.into_iter().map(|failure| (failure.name, failure.reason)).collect())
    }
}

/// An object's kind in one word.
pub(crate) mod as_kind {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use treecast_wire::message::ObjectKind;

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "ObjectKind", rename_all = "snake_case")]
    enum Kind {
        File,
        Folder,
        Link,
        Index,
    }

    pub fn serialize<S: Serializer>(kind: &ObjectKind, serializer: S) -> Result<S::Ok, S::Error> {
        Kind::serialize(kind, serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectKind, D::Error> {
        Kind::deserialize(deserializer)
    }
}
