//! Who may do what: roles, tokens for programs, and logins of people.
//!
//! The database has no secret, only the hash of each: who reads it can log in nowhere.

use std::{fmt, str::FromStr, time::Duration};

use data_encoding::BASE64URL_NOPAD;
use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    hub::now_ms,
    store::{Store, StoreError},
};
use crate::{
    code::{Code, SECRET_LEN},
    message::{of_word, word},
};

/// What somebody may do. Each role may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Look at everything.
    Viewer,
    /// Run experiments and commands, save groups and tags.
    Operator,
    /// Roll out releases.
    ReleaseManager,
    /// Give out codes and tokens, and remove hosts.
    Administrator,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Viewer, Role::Operator, Role::ReleaseManager, Role::Administrator];
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&word(self))
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        of_word(text).map_err(|_| {
            let [viewer, operator, release_manager, administrator] = Self::ALL;
            format!("{text:?} is no role: take {viewer}, {operator}, {release_manager} or {administrator}")
        })
    }
}

/// Somebody who has proved who it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Caller {
    pub name: String,
    pub role: Role,
}

/// The time that a login lasts.
pub const LOGIN_TIME: Duration = Duration::from_secs(12 * 60 * 60);

/// Draws a secret that nobody guesses.
///
/// # Errors
/// If there are no random numbers.
pub fn draw() -> std::io::Result<String> {
    Ok(BASE64URL_NOPAD.encode(&treecast_driver::security::random::<24>()?))
}

fn fingerprint(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}

/// Keeps a code with which hosts may join until `ends_ms`.
///
/// # Errors
/// If it cannot be kept.
pub async fn keep_code(
    store: &Store,
    secret: &[u8; SECRET_LEN],
    uses: u32,
    ends_ms: u64,
) -> Result<(), StoreError> {
    let insert = "INSERT INTO codes (fingerprint, uses, ends, made) VALUES (?1, ?2, ?3, ?4)";
    let row = (Code::fingerprint(secret), uses, ends_ms, now_ms());
    store.with(move |of| of.execute(insert, row)).await.map(drop)
}

/// Makes a token of a name, or one in the place of an earlier token of that name. Returns its secret.
///
/// # Errors
/// If it cannot be kept.
pub async fn make_token(store: &Store, name: &str, role: Role) -> Result<String, StoreError> {
    let secret = draw().map_err(|error| StoreError::Failed(error.to_string()))?;
    let (fingerprint, name, role, now_ms) =
        (fingerprint(&secret), name.to_owned(), role.to_string(), now_ms());
    let insert = "INSERT INTO tokens (fingerprint, name, role, made) VALUES (?1, ?2, ?3, ?4)
                  ON CONFLICT (name) DO UPDATE SET fingerprint = ?1, role = ?3, made = ?4";
    store.with(move |of| of.execute(insert, params![fingerprint, name, role, now_ms])).await?;
    Ok(secret)
}

/// Ends a token. Returns whether there was one.
///
/// # Errors
/// If the database fails.
pub async fn end_token(store: &Store, name: &str) -> Result<bool, StoreError> {
    let name = name.to_owned();
    store.with(move |of| Ok(of.execute("DELETE FROM tokens WHERE name = ?1", [name])? > 0)).await
}

/// Returns whose token this is.
///
/// # Errors
/// If the database fails.
pub async fn caller_of_token(store: &Store, secret: &str) -> Result<Option<Caller>, StoreError> {
    let fingerprint = fingerprint(secret);
    caller(store, "SELECT name, role FROM tokens WHERE fingerprint = ?1 AND ?2 = ?2", fingerprint).await
}

/// Logs somebody in. Returns the secret of the login, for a cookie.
///
/// # Errors
/// If it cannot be kept.
pub async fn log_in(store: &Store, caller: &Caller) -> Result<String, StoreError> {
    let secret = draw().map_err(|error| StoreError::Failed(error.to_string()))?;
    let (fingerprint, name, role) = (fingerprint(&secret), caller.name.clone(), caller.role.to_string());
    let now_ms = now_ms();
    store
        .with(move |of| {
            of.execute("DELETE FROM logins WHERE ends < ?1", [now_ms])?;
            let insert = "INSERT INTO logins (fingerprint, name, role, ends) VALUES (?1, ?2, ?3, ?4)";
            of.execute(insert, params![fingerprint, name, role, now_ms + LOGIN_TIME.as_millis() as u64])
        })
        .await?;
    Ok(secret)
}

/// Ends a login. Its cookie is worth nothing from then on.
///
/// # Errors
/// If the database fails.
pub async fn log_out(store: &Store, secret: &str) -> Result<(), StoreError> {
    let fingerprint = fingerprint(secret);
    store
        .with(move |of| of.execute("DELETE FROM logins WHERE fingerprint = ?1", [fingerprint]))
        .await
        .map(drop)
}

/// Returns whose login this is.
///
/// # Errors
/// If the database fails.
pub async fn caller_of_login(store: &Store, secret: &str) -> Result<Option<Caller>, StoreError> {
    caller(store, "SELECT name, role FROM logins WHERE fingerprint = ?1 AND ends > ?2", fingerprint(secret))
        .await
}

async fn caller(
    store: &Store,
    query: &'static str,
    fingerprint: String,
) -> Result<Option<Caller>, StoreError> {
    let now_ms = now_ms();
    let row: Option<(String, String)> = store
        .with(move |of| {
            let mut query = of.prepare_cached(query)?;
            query.query_row(params![fingerprint, now_ms], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
        .await?;
    Ok(row.and_then(|(name, role)| Some(Caller { name, role: role.parse().ok()? })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_and_a_login_are_worth_nothing_once_they_have_ended() {
        let path = std::env::temp_dir().join(format!("treecast-access-{}.sqlite", std::process::id()));
        let store = Store::open(&path).unwrap();
        let token = make_token(&store, "ci", Role::Operator).await.unwrap();
        let caller = caller_of_token(&store, &token).await.unwrap().unwrap();
        assert_eq!(caller, Caller { name: "ci".into(), role: Role::Operator });
        let login = log_in(&store, &caller).await.unwrap();
        assert_eq!(caller_of_login(&store, &login).await.unwrap(), Some(caller));
        assert_eq!(caller_of_token(&store, &login).await.unwrap(), None);
        log_out(&store, &login).await.unwrap();
        assert_eq!(caller_of_login(&store, &login).await.unwrap(), None);
        let again = make_token(&store, "ci", Role::Viewer).await.unwrap();
        assert_eq!(caller_of_token(&store, &token).await.unwrap(), None, "the name has a new token");
        assert!(end_token(&store, "ci").await.unwrap());
        assert_eq!(caller_of_token(&store, &again).await.unwrap(), None);
        drop(store);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn each_role_may_do_what_those_before_it_may() {
        assert!(Role::Administrator > Role::ReleaseManager && Role::Operator > Role::Viewer);
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        assert!("root".parse::<Role>().unwrap_err().contains("take viewer"));
    }
}
