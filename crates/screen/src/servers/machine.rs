//! The machine of the server, in words.

use monitor::machine::MachineLoad;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use super::item::{DIM, Item, List, one_line, styled};
use super::screen::Screen;
use super::state::bytes;

const YELLOW: Style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);

/// A disk, or the processors together, that are busy for this share of the time are a bottleneck.
const BUSY_SHARE: f64 = 0.9;
/// With less of its memory available the system begins to swap, or ends programs.
const AVAILABLE_SHARE: f64 = 0.05;
/// The share of the time, in percent, from which stalled tasks are noticed.
const PRESSURE_PERCENT: f64 = 10.0;

/// What the machine does, each resource with what it has.
pub(super) fn list(screen: &Screen) -> List {
    let found = screen.frame().and_then(|frame| frame.incident.machine.as_ref());
    let title = match found {
        None if screen.is_recorded => "the host is not in this recording".to_owned(),
        None => "the host: the server is on another machine; --server-at ssh://HOST shows it".to_owned(),
        Some(Err(why)) => format!("the host can't be read: {}", one_line(why, 300)),
        Some(Ok(_)) => "the host of the server".to_owned(),
    };
    let lines = found.and_then(|found| found.as_ref().ok()).map_or_else(Vec::new, |load| lines(load));
    List { title, head: None, items: lines.into_iter().map(|line| Item::plain(vec![line])).collect() }
}

fn lines(load: &MachineLoad) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut add = |name: &str, is_urgent: bool, text: String| {
        let style = if is_urgent { YELLOW } else { Style::new() };
        lines.push(styled(vec![(format!("{name:<15} "), DIM), (text, style)]));
    };
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let processors = progress::count(load.processors as u64, "processor");
    let (busy, waiting) = (percent(load.busy), percent(load.waiting));
    let mut text = format!("{busy} of {processors} busy, {waiting} I/O wait");
    if load.stolen >= 0.005 {
        text.push_str(&format!(", {} steal", percent(load.stolen)));
    }
    add("processors", load.busy >= BUSY_SHARE, text);
    let [one, five, fifteen] = load.load;
    add("load", false, format!("{one:.2}, {five:.2}, {fifteen:.2} over 1, 5 and 15 minutes"));
    let (memory, available) = (size(load.memory), size(load.available));
    let text = format!("{} available of {}", bytes(available), bytes(memory));
    add("memory", available < memory * AVAILABLE_SHARE, text);
    let swap = match load.swap {
        0 => "none".to_owned(),
        all => format!("{} of {} used", bytes(size(load.swap_used)), bytes(size(all))),
    };
    add("swap", load.swapped_s > 0.0, format!("{swap}; {}/s in and out", bytes(load.swapped_s)));
    for pressure in &load.pressure {
        let text = format!("tasks stalled {:.0}% of the last 10 s", pressure.some);
        add(&format!("pressure {}", one_line(&pressure.of, 6)), pressure.some >= PRESSURE_PERCENT, text);
    }
    for disk in &load.disks {
        let (read, written) = (bytes(disk.read_s), bytes(disk.written_s));
        let text = format!("{read}/s read, {written}/s written, busy {} of the time", percent(disk.busy));
        add(&format!("disk {}", one_line(&disk.name, 9)), disk.busy >= BUSY_SHARE, text);
    }
    lines
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn size(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use monitor::machine::{DiskLoad, Pressure};

    use super::*;

    #[test]
    fn what_is_used_up_is_yellow() {
        let mut load = MachineLoad {
            processors: 2,
            busy: 0.37,
            waiting: 0.02,
            stolen: 0.0,
            load: [1.5, 0.7, 0.25],
            memory: 8_000_000_000,
            available: 3_000_000_000,
            swap: 0,
            swap_used: 0,
            swapped_s: 0.0,
            disks: vec![DiskLoad { name: "vda".into(), read_s: 2e6, written_s: 0.0, busy: 0.5 }],
            pressure: vec![Pressure { of: "io".into(), some: 3.0 }],
        };
        let shown = |load: &MachineLoad| {
            let lines = lines(load);
            let is_yellow = |line: &&Line<'_>| line.spans[1].style == YELLOW;
            let yellow = lines.iter().filter(is_yellow).map(|line| line.spans[0].content.trim().to_owned());
            (lines.iter().map(ToString::to_string).collect::<Vec<_>>(), yellow.collect::<Vec<_>>())
        };
        let (text, yellow) = shown(&load);
        let expected = [
            "processors      37% of 2 processors busy, 2% I/O wait",
            "load            1.50, 0.70, 0.25 over 1, 5 and 15 minutes",
            "memory          3.00 GB available of 8.00 GB",
            "swap            none; 0 B/s in and out",
            "pressure io     tasks stalled 3% of the last 10 s",
            "disk vda        2.00 MB/s read, 0 B/s written, busy 50% of the time",
        ];
        assert_eq!((text, yellow), (expected.map(str::to_owned).to_vec(), Vec::new()));
        (load.busy, load.stolen, load.available) = (0.95, 0.1, 100_000_000);
        (load.swap, load.swap_used, load.swapped_s) = (2_000_000_000, 1_000_000_000, 4096.0);
        (load.disks[0].busy, load.pressure[0].some) = (0.99, 40.0);
        let (text, yellow) = shown(&load);
        assert!(text[0].ends_with("10% steal") && text[3].contains("1.00 GB of 2.00 GB used"));
        assert_eq!(yellow, ["processors", "memory", "swap", "pressure io", "disk vda"]);
    }
}
