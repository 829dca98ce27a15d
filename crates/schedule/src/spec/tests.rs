use jiff::{SignedDuration, Timestamp};

use super::{CAUGHT_UP_MAX, Due, Missed, Schedule};
use crate::Error;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The ticks of a schedule in a span, as `DD HH:MM` in UTC.
fn between(spec: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
    let schedule = Schedule::parse(spec, zone).unwrap();
    let to = at(to);
    let ticks = std::iter::successors(schedule.next(at(from)), |tick| schedule.next(*tick));
    let ticks: Vec<Timestamp> = ticks.take_while(|tick| *tick <= to).collect();
    // What was missed is found backwards: the same ticks, but not more than the limit.
    let due = schedule.due(at(from), to, Missed::All, SignedDuration::ZERO);
    let due = due.map(|due| due.ticks).unwrap_or_default();
    assert!(ticks.ends_with(&due) && due.len() == ticks.len().min(CAUGHT_UP_MAX), "{spec} in {zone}");
    ticks.iter().map(|tick| tick.strftime("%d %H:%M").to_string()).collect()
}

#[test]
fn an_expression_comes_at_its_times() {
    let friday = ("2026-01-02T03:04:05Z", "2026-01-09T03:04:05Z");
    let cases: [(&str, &str, &[&str]); 8] = [
        ("0 3 * * mon-fri", "UTC", &["05 03:00", "06 03:00", "07 03:00", "08 03:00", "09 03:00"]),
        ("0 3 * * 0", "UTC", &["04 03:00"]),
        ("0 3 * * 7", "UTC", &["04 03:00"]),
        ("30 30 12 * * tue", "UTC", &["06 12:30"]),
        ("0 12 5 * fri", "UTC", &["02 12:00", "05 12:00"]),
        ("0 12 9 * +fri", "UTC", &[]),
        ("@weekly", "Asia/Tokyo", &["03 15:00"]),
        ("@every 2d12h", "UTC", &["04 15:04", "07 03:04"]),
    ];
    for (spec, zone, expected) in cases {
        assert_eq!(between(spec, zone, friday.0, friday.1), expected, "{spec}");
    }
    assert_eq!(
        between("0 0 L * *", "-02:30", "2026-01-01T00:00:00Z", "2026-03-15T00:00:00Z"),
        ["31 02:30", "28 02:30"]
    );
    assert_eq!(
        between("0 9 * * fri#2", "UTC", "2026-01-01T00:00:00Z", "2026-02-15T00:00:00Z"),
        ["09 09:00", "13 09:00"]
    );
}

#[test]
fn clocks_that_go_forward_and_back_lose_and_double_nothing() {
    let zone = "Europe/Berlin";
    let spring = |spec| between(spec, zone, "2026-03-28T20:00:00Z", "2026-03-29T06:00:00Z");
    let autumn = |spec| between(spec, zone, "2026-10-24T20:00:00Z", "2026-10-25T06:00:00Z");
    // 02:30 does not exist: 03:00, which is 01:00 UTC. It comes twice: the first time.
    assert_eq!(spring("30 2 * * *"), ["29 01:00"]);
    assert_eq!(autumn("30 2 * * *"), ["25 00:30"]);
    // By the clock on the wall: each time that it shows.
    assert_eq!(spring("0 1-4 * * *"), ["29 00:00", "29 01:00", "29 02:00"]);
    assert_eq!(autumn("0 1-4 * * *"), ["24 23:00", "25 00:00", "25 01:00", "25 02:00", "25 03:00"]);
    assert_eq!(spring("*/20 2 * * *"), [""; 0]);
    assert_eq!(autumn("*/30 2 * * *"), ["25 00:00", "25 00:30", "25 01:00", "25 01:30"]);
    // Real time.
    assert_eq!(spring("*/15 * * * *").len(), 40);
    assert_eq!(autumn("*/15 * * * *").len(), 40);
    assert_eq!(spring("@every 15m").len(), 40);
}

/// Walks over two years of zones that change their clocks in different ways, also by half an hour and at
/// midnight.
#[test]
fn going_forward_and_looking_back_find_the_same() {
    for zone in [
        "America/New_York",
        "Australia/Lord_Howe",
        "America/Sao_Paulo",
        "Africa/Cairo",
        "Pacific/Apia",
        "UTC",
    ] {
        for spec in
            ["0 0 * * *", "59 23 * * *", "30 1 * * sun", "0 2,3 * * *", "0 12 15W * *", "*/7 0-3 1 * *"]
        {
            between(spec, zone, "2026-01-01T00:00:00Z", "2027-12-31T00:00:00Z");
        }
    }
}

#[test]
fn what_was_missed_is_delivered_by_policy() {
    let schedule = Schedule::parse("0 * * * *", "UTC").unwrap();
    let due = |now: &str, missed| {
        schedule.due(at("2026-01-02T00:00:00Z"), at(now), missed, SignedDuration::from_secs(60))
    };
    let hours = |hours: &[u8], last: u8| {
        let tick = |hour: &u8| at(&format!("2026-01-02T{hour:02}:00:00Z"));
        Some(Due { ticks: hours.iter().map(tick).collect(), last: tick(&last) })
    };
    for missed in [Missed::Skip, Missed::Once, Missed::All] {
        assert_eq!(due("2026-01-02T00:59:59.9Z", missed), None);
        assert_eq!(due("2026-01-02T01:00:00Z", missed), hours(&[1], 1));
        assert_eq!(due("2026-01-02T01:01:00Z", missed), hours(&[1], 1));
    }
    assert_eq!(due("2026-01-02T03:30:00Z", Missed::Skip), hours(&[], 3));
    assert_eq!(due("2026-01-02T03:30:00Z", Missed::Once), hours(&[3], 3));
    assert_eq!(due("2026-01-02T03:30:00Z", Missed::All), hours(&[1, 2, 3], 3));
    // One that is on time stands for those before it.
    assert_eq!(due("2026-01-02T03:00:10Z", Missed::Skip), hours(&[3], 3));
    assert_eq!(due("2026-01-02T03:00:10Z", Missed::Once), hours(&[3], 3));
    // The clock was set back.
    assert_eq!(due("2026-01-01T23:00:00Z", Missed::All), None);
}

#[test]
fn a_long_interruption_is_caught_up_to_a_limit() {
    for spec in ["* * * * * *", "@every 1s"] {
        let schedule = Schedule::parse(spec, "UTC").unwrap();
        let now = at("2026-01-02T00:00:00.7Z");
        let due =
            schedule.due(at("2025-01-02T00:00:00Z"), now, Missed::All, SignedDuration::from_secs(2)).unwrap();
        assert_eq!((due.ticks.len(), due.last), (CAUGHT_UP_MAX, at("2026-01-02T00:00:00Z")), "{spec}");
        assert!(due.ticks.is_sorted(), "{spec}");
    }
}

#[test]
fn what_is_no_schedule_is_refused() {
    let refused = |spec: &str, zone: &str| Schedule::parse(spec, zone).err();
    for spec in [
        "",
        "* * * *",
        "61 * * * *",
        "* * * * * * *",
        "@reboot",
        "@every",
        "@every 0s",
        "@every 5",
        "@every 1x",
        "@every 11y",
        "@every 99999999999999999999s",
        "*/0 * * * *",
        "now",
    ] {
        assert!(matches!(refused(spec, "UTC"), Some(Error::Spec { .. })), "{spec}");
    }
    for zone in ["", "Berlin", "Europe/Nowhere", "+2", "+15:00", "+01:60", "+1:2:3", "01:00"] {
        assert_eq!(refused("0 3 * * *", zone), Some(Error::Zone(zone.to_owned())));
    }
    assert_eq!(
        refused("61 * * * *", "UTC").map(|error| error.to_string()).as_deref(),
        Some("'61 * * * *' is not a cron expression: Number out of bounds")
    );
    let never = Schedule::parse("0 0 30 2 *", "UTC").unwrap();
    assert_eq!(never.next(at("2026-01-01T00:00:00Z")), None);
    let seldom = Schedule::parse("0 0 29 2 *", "UTC").unwrap();
    assert_eq!(seldom.next(at("2026-01-01T00:00:00Z")), Some(at("2028-02-29T00:00:00Z")));
}
