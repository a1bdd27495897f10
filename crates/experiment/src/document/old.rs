//! Refuses experiment files in an older format, and says what to change in them.

use toml::{Table, Value};

/// Returns what to change in a file of the older format; `None` for other files.
pub fn advice(document: &Table) -> Option<String> {
    let has = |key: &str| document.contains_key(key);
    let moved = [
        (
            "use_case",
            "put use_case, participants and receivers under [cast], and rates, seconds, sizes and payload under [workload] with kind = \"stream\"",
        ),
        ("feed", "rename [feed] to [workload] with kind = \"feed\""),
        ("sharing", "rename [sharing] to [workload] with kind = \"shared\", and put sizes there, too"),
        ("sizes", "put sizes under [workload] with kind = \"files\""),
        ("file", "put file under [workload] with kind = \"files\""),
    ];
    if !has("workload")
        && let Some((key, change)) = moved.into_iter().find(|(key, _)| has(key))
    {
        return Some(old(key, change));
    }
    let tables = |key: &str| document.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let in_any = |key: &str, inner: &str| tables(key).iter().any(|table| table.get(inner).is_some());
    if in_any("claim", "of") {
        let change = "say what holds as an expression, such as \
                      holds = 'median(time{delivery = \"nack\"}) <= 0.5 * median(time{delivery = \"tcp\"})'";
        return Some(old("claim.of", change));
    }
    if in_any("delivery", "kind") {
        return Some(old(
            "delivery.kind",
            "name its fanout, and put max, grouping and the like under options",
        ));
    }
    None
}

fn old(key: &str, change: &str) -> String {
    format!("`{key}` belongs to the old format: {change} (labs/README.md says how)")
}
