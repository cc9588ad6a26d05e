//! Intervals as people write them: `15m`, `every 15m`; whole seconds, at least one.

use std::time::Duration;

use netsky_model::duration::{self, BadDuration};

/// Longest interval and longest delay: ten years. Whoever means a calendar wants cron.
pub const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

/// Text that is no interval.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadInterval {
    /// It is of another form.
    #[error("interval {0:?} is not a whole number above 0 with s, m, h or d (such as 30s, 15m, every 2h)")]
    Form(String),
    /// It is over [`LONGEST`].
    #[error("interval {0:?} is over ten years")]
    Long(String),
}

/// Reads an interval in whole seconds, with or without `every` before it.
///
/// # Errors
/// Anything else.
pub fn parse(text: &str) -> Result<Duration, BadInterval> {
    let shown = || text.chars().take(40).collect::<String>();
    let words: Vec<&str> = text.split_whitespace().collect();
    let amount = match words[..] {
        ["every", amount] | [amount] => amount,
        _ => return Err(BadInterval::Form(shown())),
    };
    // Milliseconds are the ticker's.
    if amount.ends_with("ms") {
        return Err(BadInterval::Form(shown()));
    }
    let interval = duration::parse(amount).map_err(|error| match error {
        BadDuration::Form(_) => BadInterval::Form(shown()),
        BadDuration::Long(_) => BadInterval::Long(shown()),
    })?;
    if interval > LONGEST {
        return Err(BadInterval::Long(shown()));
    }
    Ok(interval)
}

/// An interval as people read it, in its largest whole unit.
pub fn written(interval: Duration) -> String {
    let secs = interval.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "m")];
    let whole = units.into_iter().find(|(unit, _)| secs >= *unit && secs.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{secs}s"), |(unit, word)| format!("{}{word}", secs / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_one_of_four_units_and_perhaps_every_before_it() {
        for (text, secs) in
            [("30s", 30), ("15m", 900), ("every 15m", 900), ("2h", 7200), (" every  1d ", 86_400)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(secs)), "{text}");
        }
        for text in
            ["", "every", "15", "0m", "-1m", "1.5h", "500ms", "every every 1m", "15 m", "1w", "99999999999d"]
        {
            assert!(matches!(parse(text), Err(BadInterval::Form(_) | BadInterval::Long(_))), "{text}");
        }
        for text in ["4000d", "every 99999999999999999999h", "18446744073709551615d"] {
            assert!(matches!(parse(text), Err(BadInterval::Long(_))), "{text}");
        }
    }

    #[test]
    fn an_interval_is_written_as_it_was_read() {
        for text in ["30s", "90s", "15m", "2h", "1d", "25h"] {
            assert_eq!(written(parse(text).expect("one")), text);
        }
    }
}
