//! A page with two plots of time against size: for compression and for decompression.

use std::fmt::Write;
use std::ops::Range;

use progress::{as_f64, size};

use crate::sample::Sample;
use crate::{Row, all_cores, number};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 560.0;
/// Margins for the axes: left, top, right, bottom.
const LEFT: f64 = 64.0;
const TOP: f64 = 20.0;
const RIGHT: f64 = 110.0;
const BOTTOM: f64 = 52.0;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#1b1f24;\
background:#fff}svg{width:100%;height:auto}text{font:12px system-ui,sans-serif;fill:#1b1f24}.axis{fill:#57606a}\
.grid{stroke:#d8dee4}.edge{stroke:#8250df;stroke-width:1.5;fill:none;stroke-dasharray:5 4}table{border-collapse:collapse}\
td,th{padding:.15em .7em;text-align:right;border-bottom:1px solid #d8dee4}td:first-child,th:first-child{text-align:left}\
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}text{fill:#e6edf3}.axis{fill:#9198a1}\
.grid{stroke:#30363d}td,th{border-color:#30363d}}";

/// The page.
pub fn html(rows: &[Row], sample: &Sample, threads: usize) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>remora pack bench</title><style>{STYLE}</style>\
         <h1>Which compression?</h1><p>Each point is a codec at a level, on one core; lower and further to the left is better. The \
         dashed line joins those that no other beats. Filled points are remora's, rings are other tools. {}.</p>",
        escaped(&sample.shown())
    );
    let text_bytes = sample.text.len() as u64;
    for (direction, title) in ["Compression", "Decompression"].into_iter().enumerate() {
        write!(out, "<h2>{title}: processor time and size</h2>").ok();
        plot(rows, direction, text_bytes, &mut out);
    }
    write!(
        out,
        "<h2>Numbers</h2><table><tr><th></th><th>size, %</th><th>compress, MB/s</th><th>{all}</th>\
         <th>decompress, MB/s</th><th>{all}</th><th>memory</th><th>best</th></tr>",
        all = all_cores(threads),
    )
    .ok();
    for row in rows {
        let speed = |seconds: f64| number(as_f64(text_bytes) / 1e6 / seconds.max(0.001));
        let all =
            |direction: usize| row.all.as_ref().map_or("-".to_owned(), |all| speed(all[direction].wall_s));
        write!(
            out,
            "<tr><td>{}</td><td>{:.2}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}{}</td></tr>",
            escaped(&row.name),
            percent(row, text_bytes),
            speed(row.one[0].cpu_s),
            all(0),
            speed(row.one[1].cpu_s),
            all(1),
            row.one[0].memory().map_or("-".to_owned(), size),
            if row.frontier[0] { "C" } else { "" },
            if row.frontier[1] { "D" } else { "" },
        )
        .ok();
    }
    out.push_str("</table></html>\n");
    out
}

fn percent(row: &Row, text_bytes: u64) -> f64 {
    as_f64(row.bytes) * 100.0 / as_f64(text_bytes.max(1))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The relative position of a value between two others.
fn between(value: f64, low: f64, high: f64) -> f64 {
    if high > low { (value - low) / (high - low) } else { 0.5 }
}

/// A point: its place, its name, and its description.
struct Point<'a> {
    x: f64,
    y: f64,
    row: &'a Row,
}

fn plot(rows: &[Row], direction: usize, text_bytes: u64, out: &mut String) {
    // Time per gigabyte, as a logarithm, because it spans four orders of magnitude.
    let time = |row: &Row| (row.one[direction].cpu_s.max(0.001) * 1e9 / as_f64(text_bytes.max(1))).log10();
    let (low, high) = edges(rows.iter().map(time), 0.1);
    let (least, most) = edges(rows.iter().map(|row| percent(row, text_bytes)), 1.0);
    let x = |value: f64| LEFT + between(value, low, high) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - between(value, least, most) * (HEIGHT - TOP - BOTTOM);
    write!(out, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">").ok();
    grid(&(low..high), &(least..most), &x, &y, out);
    let mut points: Vec<Point<'_>> =
        rows.iter().map(|row| Point { x: x(time(row)), y: y(percent(row, text_bytes)), row }).collect();
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    let edge: Vec<String> = points
        .iter()
        .filter(|point| point.row.frontier[direction])
        .map(|point| format!("{:.1},{:.1}", point.x, point.y))
        .collect();
    write!(out, "<polyline class=\"edge\" points=\"{}\"/>", edge.join(" ")).ok();
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for point in &points {
        let colour = colour(&point.row.name);
        let fill = if point.row.ours { colour } else { "none" };
        write!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4.5\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.8\">\
             <title>{}: {:.2} %</title></circle>",
            point.x,
            point.y,
            escaped(&point.row.name),
            percent(point.row, text_bytes),
        )
        .ok();
        let label_y = free(point.x, point.y, &points, &mut taken);
        write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            point.x + 8.0,
            label_y + 4.0,
            escaped(&point.row.name)
        )
        .ok();
    }
    out.push_str("</svg>");
}

/// The minimum and the maximum, with a margin.
fn edges(values: impl Iterator<Item = f64>, around: f64) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    (low - around, high + around)
}

/// A height for a name at which it overlaps no other name.
fn free(x: f64, y: f64, points: &[Point<'_>], taken: &mut Vec<(f64, f64)>) -> f64 {
    let is_free = |at: f64| {
        taken.iter().all(|(left, top)| (left - x).abs() > 92.0 || (top - at).abs() > 12.0)
            && !points.iter().any(|point| (4.0..70.0).contains(&(point.x - x)) && (point.y - at).abs() < 10.0)
    };
    let tries = (0..60_u32).map(|step| {
        let away = f64::from(step.div_ceil(2)) * 6.5;
        if step % 2 == 0 { y + away } else { y - away }
    });
    let at = tries.into_iter().find(|at| is_free(*at)).unwrap_or(y);
    taken.push((x, at));
    at
}

type Scale<'a> = &'a dyn Fn(f64) -> f64;

fn grid(times: &Range<f64>, sizes: &Range<f64>, x: Scale<'_>, y: Scale<'_>, out: &mut String) {
    for (seconds, name) in [
        (0.1_f64, "0.1 s"),
        (0.3, "0.3 s"),
        (1.0, "1 s"),
        (3.0, "3 s"),
        (10.0, "10 s"),
        (30.0, "30 s"),
        (100.0, "100 s"),
        (300.0, "5 min"),
        (1000.0, "17 min"),
        (3000.0, "50 min"),
    ] {
        let at = seconds.log10();
        if at > times.start && at < times.end {
            write!(
                out,
                "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{TOP}\" y2=\"{1}\"/>\
                 <text class=\"axis\" text-anchor=\"middle\" x=\"{0:.1}\" y=\"{2}\">{name}</text>",
                x(at),
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 18.0,
            )
            .ok();
        }
    }
    let step = if sizes.end - sizes.start > 40.0 {
        10.0
    } else if sizes.end - sizes.start > 16.0 {
        5.0
    } else {
        2.0
    };
    let mut at = (sizes.start / step).ceil() * step;
    while at < sizes.end {
        write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{1}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>\
             <text class=\"axis\" text-anchor=\"end\" x=\"{2}\" y=\"{3:.1}\">{at:.0} %</text>",
            y(at),
            WIDTH - RIGHT,
            LEFT - 8.0,
            y(at) + 4.0,
        )
        .ok();
        at += step;
    }
    write!(
        out,
        "<text class=\"axis\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">processor seconds for a gigabyte of text</text>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 10.0,
    )
    .ok();
}

/// A colour for each family.
fn colour(name: &str) -> &'static str {
    let family = name.split([':', ' ']).next().unwrap_or_default();
    match family {
        "zstd" => "#0969da",
        "column" => "#cf222e",
        "gzip" | "pigz" => "#9a6700",
        "bzip2" | "pbzip2" | "lbzip2" => "#8250df",
        "xz" | "7z" | "pixz" => "#1a7f37",
        "lzip" | "plzip" => "#3a9b8c",
        "lz4" | "lzop" => "#bc4c00",
        _ => "#6e7781",
    }
}
