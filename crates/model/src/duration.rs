//! Durations as people type them: `2s`, `15m`, `1h`, `2d`, `500ms`.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// Text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDuration {
    /// It is of another form.
    #[error("duration {0:?} is not a whole number above 0 with ms, s, m, h or d (such as 2s or 15m)")]
    Form(String),
    /// It is one, and no clock counts that far.
    #[error("duration {0:?} is too long")]
    Long(String),
}

/// Parse a positive whole number and its unit.
///
/// # Errors
/// Anything else, also zero and what does not fit.
pub fn parse(text: &str) -> Result<Duration, BadDuration> {
    let shown = || text.chars().take(40).collect();
    let bad = || BadDuration::Form(shown());
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let (digits, unit) = text.split_at(split);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(bad()),
    };
    if digits.is_empty() {
        return Err(bad());
    }
    // Digits alone: what does not fit is too large.
    let total = digits.parse().ok().and_then(|number: u64| number.checked_mul(millis));
    match total {
        Some(0) => Err(bad()),
        Some(total) => Ok(Duration::from_millis(total)),
        None => Err(BadDuration::Long(shown())),
    }
}

/// Read one from settings, where any text may be a secret at the wrong place: what is none is not shown.
///
/// # Errors
/// As [`parse`].
pub fn unquoted<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let why = |bad| match bad {
        BadDuration::Form(_) => "expected a whole number above 0 with ms, s, m, h or d (such as 2s or 15m)",
        BadDuration::Long(_) => "the duration is too long",
    };
    parse(&String::deserialize(from)?).map_err(why).map_err(serde::de::Error::custom)
}

/// A duration in its two largest units, for people: `3d 4h`, `12m 5s`, `1.8s`, `40ms`.
pub fn human(duration: Duration) -> String {
    let (millis, secs) = (duration.as_millis(), duration.as_secs());
    match secs {
        0 => format!("{millis}ms"),
        1..=9 => format!("{:.1}s", duration.as_secs_f64()),
        10..=59 => format!("{secs}s"),
        60..=3_599 => format!("{}m {}s", secs / 60, secs % 60),
        3_600..=86_399 => format!("{}h {}m", secs / 3_600, secs / 60 % 60),
        _ => format!("{}d {}h", secs / 86_400, secs / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_people_type_and_nothing_else() {
        assert_eq!(parse("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("2d"), Ok(Duration::from_secs(172_800)));
        for text in ["", "s", "2", "-2s", "0s", "1.5s", "2 s", "2w", "99999999999999999999w"] {
            assert!(matches!(parse(text), Err(BadDuration::Form(_))), "{text:?}");
        }
        for text in ["99999999999999999999s", "18446744073709551615d"] {
            assert_eq!(parse(text), Err(BadDuration::Long(text.to_owned())));
        }
    }

    #[test]
    fn speaks_in_two_units() {
        assert_eq!(human(Duration::from_millis(40)), "40ms");
        assert_eq!(human(Duration::from_millis(1_840)), "1.8s");
        assert_eq!(human(Duration::from_secs(725)), "12m 5s");
        assert_eq!(human(Duration::from_secs(273_600)), "3d 4h");
    }
}
