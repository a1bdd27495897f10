//! `treecast keys`: the key files of this user.

use std::{path::Path, process::ExitCode};

use clap::Subcommand;
use serde_json::json;
use treecast::unstable::keys::{DEFAULT_KEY_NAME, Identity, KeyFolder, PublicKey, is_key_name};

use crate::Outcome;

/// Make and show keys.
///
/// A key identifies a sender or a receiver. `treecast send` and `receive` need none: without one, they make a
/// key for the session. With a key of its own (--key), a receiver can be listed in a sender's --allow file, and
/// receivers can recognise a sender. Keys are files in $XDG_CONFIG_HOME/treecast/keys or
/// ~/.config/treecast/keys, which only their owner can read.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// One JSON object a line on standard output
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Make a key; an existing key is never overwritten
    New {
        /// The key's name (letters, digits, - and _), or a file for it, given with its folder, like ./key.pem
        #[arg(value_name = "NAME|PATH", default_value = DEFAULT_KEY_NAME)]
        name: String,
    },
    /// Show the public half of a key, in the form for an allow list
    Show {
        /// The key's name or file
        #[arg(default_value = DEFAULT_KEY_NAME)]
        name: String,
    },
    /// Show the public halves of all keys
    List,
}

pub fn run(args: Args) -> Outcome {
    match &args.command {
        Command::New { name } => {
            let path = Path::new(name);
            if name.contains('/') {
                show(args.json, &stem(name), path, Identity::create(path)?.public_key());
            } else {
                let (path, identity) = KeyFolder::of_user()?.create(name)?;
                show(args.json, name, &path, identity.public_key());
            }
        }
        Command::Show { name } => {
            let identity = Identity::named(name)?;
            match is_key_name(name) {
                true => show(args.json, name, &KeyFolder::of_user()?.path_of(name)?, identity.public_key()),
                false => show(args.json, &stem(name), Path::new(name), identity.public_key()),
            }
        }
        Command::List => return list(args.json),
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the keys. A key that cannot be used is reported, and the others are shown.
fn list(json: bool) -> Outcome {
    let folder = KeyFolder::of_user()?;
    let names = folder.names()?;
    if names.is_empty() && !json {
        remark!("no key is in {}: make one with `treecast keys new`", folder.path().display());
    }
    let mut code = ExitCode::SUCCESS;
    for name in names {
        let path = folder.path_of(&name)?;
        match Identity::load(&path) {
            Ok(identity) => show(json, &name, &path, identity.public_key()),
            Err(error) => {
                remark!("treecast: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

fn show(json: bool, name: &str, path: &Path, key: PublicKey) {
    match json {
        true => say!("{}", json!({"event": "key", "name": name, "key": key.to_string(), "path": path})),
        false => say!("{key} {name}"),
    }
}

fn stem(path: &str) -> String {
    Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
