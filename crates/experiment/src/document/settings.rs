//! Carries out `--set KEY=VALUE`, whose value takes the place of the one in the file.

use toml::{Table, Value};

/// Lets `key=value` take the place of what a file says. `accepts` says whether the file can be read with it, and if not, why.
///
/// A key may have dots (`workload.sizes`). A key that only the workload or the cast has may be written without their name.
///
/// # Errors
/// The first reason why no way to read the value is accepted.
pub fn set(
    document: &mut Table,
    setting: &str,
    accepts: impl Fn(&Table) -> Result<(), String>,
) -> Result<(), String> {
    let (key, value) = setting.split_once('=').ok_or("expected key=value, such as repeats=2")?;
    let (key, value) = (key.trim(), value.trim());
    if value.is_empty() {
        return Err("expected a value".into());
    }
    let mut refused = None;
    for place in places(key) {
        for value in readings(value) {
            let mut changed = document.clone();
            put(&mut changed, &place, value);
            match accepts(&changed) {
                Ok(()) => {
                    *document = changed;
                    return Ok(());
                }
                Err(why) => choose(&mut refused, why),
            }
        }
    }
    Err(refused.unwrap_or_default())
}

/// Keeps the reason that says most: a value that is wrong says more than a key that is not there.
fn choose(kept: &mut Option<String>, why: String) {
    let says_little = |why: &String| {
        ["unknown field", "missing field", "invalid type"].iter().any(|words| why.contains(words))
    };
    match kept {
        Some(known) if !says_little(known) || says_little(&why) => {}
        _ => *kept = Some(why),
    }
}

/// Where the key may stand.
fn places(key: &str) -> Vec<Vec<&str>> {
    let path: Vec<&str> = key.split('.').collect();
    match path.len() {
        1 => vec![path, vec!["workload", key], vec!["cast", key]],
        _ => vec![path],
    }
}

fn put(table: &mut Table, path: &[&str], value: Value) {
    match path {
        [] => {}
        [key] => {
            // A file and random sizes are two words for the same.
            match *key {
                "sizes" => _ = table.remove("file"),
                "file" => _ = table.remove("sizes"),
                _ => {}
            }
            table.insert((*key).to_owned(), located(key, value));
        }
        [key, rest @ ..] => {
            let inner = table.entry(*key).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// A path that was given on the command line starts at the current folder, not at the file's.
fn located(key: &str, value: Value) -> Value {
    match (key, &value) {
        ("file", Value::String(path)) if path != super::THIS_PROGRAM => absolute(path),
        ("store", Value::String(path)) if path != super::MEMORY => absolute(path),
        _ => value,
    }
}

fn absolute(path: &str) -> Value {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
    Value::String(path.display().to_string())
}

/// The ways in which a value may be meant: as TOML writes it, as a text, as a list of values, as a list of texts.
fn readings(value: &str) -> Vec<Value> {
    let written = |text: &str| {
        let table = toml::from_str::<Table>(&format!("value = {text}")).ok()?;
        table.get("value").cloned()
    };
    let texts = value.split(',').map(|item| Value::String(item.trim().into())).collect();
    [
        written(value),
        Some(Value::String(value.into())),
        written(&format!("[{value}]")),
        Some(Value::Array(texts)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(setting: &str, accepts: impl Fn(&Table) -> Result<(), String>) -> Result<String, String> {
        let mut table: Table = toml::from_str("repeats = 1\n[workload]\nfile = \"x\"\n").unwrap();
        set(&mut table, setting, accepts)?;
        Ok(table.to_string().replace('\n', " "))
    }

    #[test]
    fn a_value_is_read_as_the_first_thing_that_is_accepted() {
        let is_list = |table: &Table| match table["workload"].get("sizes") {
            Some(Value::Array(list)) if list.iter().all(Value::is_str) => Ok(()),
            _ => Err("unknown field `sizes`".to_owned()),
        };
        let set = after("sizes=2M,3M", is_list).unwrap();
        assert!(set.contains("sizes = [\"2M\", \"3M\"]") && !set.contains("file"), "{set}");
        assert!(after("repeats=7", |_| Ok(())).unwrap().starts_with("repeats = 7"));
    }

    #[test]
    fn what_is_refused_says_most_about_the_value() {
        let reason = |table: &Table| match table.contains_key("colour") {
            true => Err("unknown field `colour`".to_owned()),
            false => Err("size `4` has no unit".to_owned()),
        };
        assert_eq!(after("colour=red", reason).unwrap_err(), "size `4` has no unit");
        assert_eq!(after("repeats", |_| Ok(())).unwrap_err(), "expected key=value, such as repeats=2");
    }

    #[test]
    fn a_path_on_the_command_line_starts_at_the_current_folder() {
        let here = std::env::current_dir().unwrap();
        let set = after("workload.file=data", |_| Ok(())).unwrap();
        assert!(set.contains(&format!("{}/data", here.display())), "{set}");
        assert!(after("workload.file=treecast", |_| Ok(())).unwrap().contains("file = \"treecast\""));
    }
}
