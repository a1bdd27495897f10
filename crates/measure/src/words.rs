//! Parameters of runs and their values, in the words that people read in tables, plots and claims.

use crate::{
    condition::{Condition, Relation, number},
    frame::SIMULATED,
    tables,
};

/// A cell in words: `S1L20, 32 MiB, factor 50`.
pub fn cell_in_words(cell: &[Condition]) -> String {
    let of = |condition: &Condition| match condition.relation {
        Relation::Equal => {
            let values = condition.values.iter().map(|value| named_value(&condition.key, value));
            values.collect::<Vec<_>>().join(" or ")
        }
        _ => condition.to_string(),
    };
    cell.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// The value of a parameter for people: `32 MiB` for a size, `100 Mbit/s` for a rate, `2 %` for loss.
pub fn value_in_words(parameter: &str, value: &str) -> String {
    if parameter == "site" {
        return if value == SIMULATED { "simulated".into() } else { format!("in the {value}") };
    }
    let Some(number) = number(value) else { return value.to_owned() };
    match parameter {
        // A size in whole megabytes was chosen in megabytes.
        "size" if number > 0.0 && number % 1e6 == 0.0 => format!("{} MB", number / 1e6),
        "size" => tables::bytes(number as u64),
        "link_rate" | "rate" => tables::rate(number as u64),
        "loss" if number == 0.0 => "no loss on links".into(),
        "loss" => format!("{} % loss on links", tables::three_digits(number * 100.0)),
        "round_trip" => format!("{} ms round trip", tables::three_digits(number * 1000.0)),
        "receivers_a_network" if number == 1.0 => "1 receiver in each network".into(),
        "receivers_a_network" => format!("{value} receivers in each network"),
        "receivers" if number == 1.0 => "1 receiver".into(),
        "receivers" => format!("{value} receivers"),
        _ => value.to_owned(),
    }
}

/// The value of a parameter for people, with the parameter's name where the number alone does not say what it is:
/// `factor 50`.
pub fn named_value(parameter: &str, value: &str) -> String {
    let words = value_in_words(parameter, value);
    match number(value) {
        Some(_) if words == value => format!("{} {value}", parameter_in_words(parameter)),
        _ => words,
    }
}

/// The name of a parameter for people.
pub fn parameter_in_words(parameter: &str) -> String {
    match parameter {
        "receivers_a_network" => "receivers in each network".into(),
        "size" => "size".into(),
        "levels" => "levels of routers".into(),
        "link_rate" => "rate of a link".into(),
        other => other.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_told_without_the_names_of_its_parameters_where_the_values_say_what_they_are() {
        let cell = [
            Condition::equal("network", "S1L20"),
            Condition { values: vec!["33554432".into(), "67108864".into()], ..Condition::equal("size", "") },
            Condition::equal("receivers_a_network", "1"),
            Condition::equal("load", "0.4"),
            Condition { relation: Relation::AtLeast, ..Condition::equal("receivers", "5") },
        ];
        let words = "S1L20, 32 MiB or 64 MiB, 1 receiver in each network, load 0.4, receivers >= 5";
        assert_eq!(cell_in_words(&cell), words);
    }
}
