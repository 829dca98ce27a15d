//! Numbers in few characters.

use status::counter::change::Interval;
use status::counter::view::{Column, Shape};

/// The number of a column. A replica that is stopped has no delay, and that is no good news.
pub fn number(column: &Column, interval: &Interval<'_>) -> String {
    let number = column.of(interval);
    let is_stopped = || interval.now.replicas.iter().flatten().any(|replica| replica.is_stopped());
    if column.key == "delay" && number.is_none() && is_stopped() {
        return "STOP".to_owned();
    }
    shaped(number, column.shape)
}

/// A number in at most six characters; `-` if unknown.
pub fn shaped(number: Option<f64>, shape: Shape) -> String {
    let Some(number) = number else { return "-".to_owned() };
    match shape {
        Shape::Share => share(number),
        Shape::Seconds => seconds(number),
        _ => short(number),
    }
}

/// `0`, `0.25`, `12.3`, `950`, `9999`, `12.3k`, `4.56M`
pub fn short(number: f64) -> String {
    for (unit, name) in [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if number.abs() >= unit * 0.9995 && number.abs() >= 9999.5 {
            return format!("{}{name}", digits(number / unit));
        }
    }
    if number.abs() >= 999.5 { format!("{number:.0}") } else { digits(number) }
}

/// Three digits.
fn digits(number: f64) -> String {
    let size = number.abs();
    if size < 0.0005 {
        return if size == 0.0 { "0".to_owned() } else { "0.00".to_owned() };
    }
    let text = if size < 9.995 {
        format!("{number:.2}")
    } else if size < 99.95 {
        format!("{number:.1}")
    } else {
        format!("{number:.0}")
    };
    match text.strip_suffix(".00").or_else(|| text.strip_suffix(".0")) {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 || percent >= 9.95 { format!("{percent:.0}%") } else { format!("{percent:.1}%") }
}

fn seconds(seconds: f64) -> String {
    if seconds >= 3600.0 { progress::clock(seconds) } else { digits(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_little_room() {
        let shown =
            [0.0, 0.0001, 0.25, 1.0, 9.996, 12.34, 99.96, 999.7, 9999.4, 9999.6, 123_456.0, 4.56e6, 7e9]
                .map(short);
        assert_eq!(
            shown,
            ["0", "0.00", "0.25", "1", "10", "12.3", "100", "1000", "9999", "10k", "123k", "4.56M", "7G"]
        );
        assert!([1e-9, 99_999.9, 999_999.9, 1.844e19].iter().all(|number| short(*number).len() <= 6));
        assert_eq!([0.0, 0.004, 0.5, 1.0].map(share), ["0%", "0.4%", "50%", "100%"]);
        assert_eq!(shaped(None, Shape::Share), "-");
    }
}
