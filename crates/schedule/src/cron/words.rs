//! An expression in words, field by field.

use serde::Serialize;

use super::expr::{Expr, Field};

/// What one field says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldWords {
    /// Which.
    pub field: &'static str,
    /// As it is written.
    pub text: String,
    /// In words.
    pub says: String,
}

/// What an expression says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Words {
    /// Each field.
    pub fields: Vec<FieldWords>,
    /// How the two fields for days go together.
    pub days: &'static str,
    /// What becomes of it where the clocks change.
    pub changes: &'static str,
}

impl Expr {
    /// The same in words.
    pub fn words(&self) -> Words {
        let fields = self.fields();
        let text = |name| fields.iter().find(|(field, _)| field.name == name).map_or("*", |(_, text)| text);
        let [day, weekday] = ["day of month", "day of week"].map(text);
        let days = match (day, weekday) {
            ("*", "*") => "every day",
            ("*", _) | (_, "*") => "the days of the one field that is no *",
            _ if self.pattern().matches_dom_and_dow() => {
                "days that fit both fields: one of them begins with *"
            }
            _ => "days that fit either field: none of them begins with *",
        };
        let changes = match self.follows_the_wall() {
            true => {
                "follows the clock on the wall: an hour that is left out has none, one that comes twice has them twice"
            }
            false => {
                "a fixed time of day: one that is left out comes right after, one that comes twice counts once"
            }
        };
        let fields = fields
            .iter()
            .map(|(field, text)| FieldWords {
                field: field.name,
                text: text.clone(),
                says: says(*field, text),
            })
            .collect();
        Words { fields, days, changes }
    }
}

fn says(field: Field, text: &str) -> String {
    if text == "*" {
        return "every one".to_owned();
    }
    text.to_ascii_uppercase().split(',').map(|item| item_says(field, item)).collect::<Vec<_>>().join(", ")
}

fn item_says(field: Field, item: &str) -> String {
    if let Some((range, step)) = item.split_once('/') {
        let of = if range == "*" { String::new() } else { format!(" {}", item_says(field, range)) };
        return match step {
            "1" => format!("every one{of}"),
            step => format!("every {} one{of}, from the first", nth(step)),
        };
    }
    if let Some((from, to)) = item.split_once('-') {
        return format!("{} to {}", value(field, from), value(field, to));
    }
    if let Some((day, which)) = item.split_once('#') {
        return format!("the {} {} of the month", nth(which), value(field, day));
    }
    match item {
        "LW" => "the last workday of the month".to_owned(),
        "L" => "the last one of the month".to_owned(),
        item if item.ends_with('W') => format!("the workday nearest to the {}", nth(&item[..item.len() - 1])),
        item if item.ends_with('L') => {
            format!("the last {} of the month", value(field, &item[..item.len() - 1]))
        }
        item => value(field, item),
    }
}

/// A number by its name, where it has one.
fn value(field: Field, text: &str) -> String {
    let number: Option<usize> = text.parse().ok();
    let words = field.words;
    // Months count from 1, and of the days both 0 and 7 are Sunday.
    let at = match words.len() {
        12 => number.and_then(|number| number.checked_sub(1)),
        7 => number.map(|number| number % 7),
        _ => None,
    };
    at.and_then(|at| words.get(at)).map_or_else(|| text.to_owned(), |word| (*word).to_owned())
}

fn nth(number: &str) -> String {
    let ending = match number.parse::<u32>().unwrap_or_default() {
        11..=13 => "th",
        number => match number % 10 {
            1 => "st",
            2 => "nd",
            3 => "rd",
            _ => "th",
        },
    };
    format!("{number}{ending}")
}
