//! One plot.

use super::super::view::Shape;
use super::{Times, escaped};

/// The highest value of an axis of shares is at least this one.
const SHARE_MIN: f64 = 0.01;
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 24.0;

/// What to draw.
pub(super) struct Drawing<'a> {
    pub(super) title: &'a str,
    pub(super) names: &'a [&'a str],
    pub(super) shape: Shape,
    pub(super) times: &'a [i64],
    pub(super) lines: &'a [Vec<Option<f64>>],
    pub(super) marks: &'a [i64],
}

/// Maps values to positions.
struct Scale {
    first: i64,
    span: f64,
    top: f64,
}

impl Scale {
    fn x(&self, time: i64) -> f64 {
        LEFT + as_f64(time - self.first) / self.span * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a drawing has some hundred points")]
fn as_f64(number: i64) -> f64 {
    number as f64
}

/// Writes the plot as a figure.
pub(super) fn draw(html: &mut String, drawing: &Drawing<'_>, times: &Times<'_>) {
    let (Some(first), Some(last)) = (drawing.times.first(), drawing.times.last()) else { return };
    let most = drawing.lines.iter().flatten().flatten().copied().fold(0.0, f64::max);
    let step = step(most, drawing.shape);
    let scale = Scale {
        first: *first,
        span: as_f64((last - first).max(1)),
        top: step * (most / step).ceil().max(1.0),
    };
    put!(html, "<figure>\n<figcaption>{}<span class=\"legend\">", escaped(drawing.title));
    for (at, name) in drawing.names.iter().enumerate() {
        if drawing.lines.get(at).is_some_and(|line| line.iter().any(Option::is_some)) {
            put!(html, "<span class=\"key c{at}\">{}</span>", escaped(name));
        }
    }
    put!(
        html,
        "</span></figcaption>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(drawing.title)
    );
    grid(html, drawing, &scale, step, times);
    for mark in drawing.marks {
        let x = scale.x(*mark);
        put_line!(html, "<path class=\"event\" d=\"M{x:.1} {TOP}V{:.1}\"/>", HEIGHT - BOTTOM);
    }
    for (at, line) in drawing.lines.iter().enumerate() {
        put_line!(html, "<path class=\"line c{at}\" d=\"{}\"/>", path(drawing.times, line, &scale));
    }
    put!(html, "<path class=\"cursor\" d=\"\"/>\n</svg>\n<output></output>\n");
    data(html, drawing, &scale, times);
    html.push_str("</figure>\n");
}

fn grid(html: &mut String, drawing: &Drawing<'_>, scale: &Scale, step: f64, times: &Times<'_>) {
    // A step is at least a quarter of the highest value, but for rounding: there are five steps at most.
    for value in (0..=5).map(|at| step * f64::from(at)).take_while(|value| *value <= scale.top) {
        let y = scale.y(value);
        put_line!(
            html,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" class=\"y\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            shown(value, drawing.shape)
        );
    }
    let (first, last) = (scale.first, drawing.times.last().copied().unwrap_or(scale.first));
    for part in 0..=4 {
        let time = first + (last - first) * part / 4;
        let anchor = match part {
            0 => "start",
            4 => "end",
            _ => "middle",
        };
        put_line!(
            html,
            "<text{} x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            // A small screen has room for every second label.
            if part % 2 == 1 { " class=\"minor\"" } else { "" },
            scale.x(time),
            HEIGHT - 6.0,
            escaped(&(times.tick)(time, last - first))
        );
    }
}

/// A line with gaps where values are unknown.
fn path(times: &[i64], line: &[Option<f64>], scale: &Scale) -> String {
    let mut path = String::new();
    let mut pen_is_down = false;
    for (at, (time, point)) in times.iter().zip(line).enumerate() {
        let Some(value) = point else {
            pen_is_down = false;
            continue;
        };
        let (x, y) = (scale.x(*time), scale.y(*value));
        put!(path, "{}{x:.1} {y:.1}", if pen_is_down { "L" } else { "M" });
        // A point between two gaps is drawn as a dot.
        if !pen_is_down && line.get(at + 1).copied().flatten().is_none() {
            path.push_str("h0");
        }
        pen_is_down = true;
    }
    path
}

/// The data for the script: positions, times, and for each line the texts to show there.
fn data(html: &mut String, drawing: &Drawing<'_>, scale: &Scale, times: &Times<'_>) {
    let x: Vec<f64> = drawing.times.iter().map(|time| (scale.x(*time) * 10.0).round() / 10.0).collect();
    let when: Vec<String> = drawing.times.iter().map(|time| (times.full)(*time)).collect();
    let text = |line: &Vec<Option<f64>>| -> Vec<String> {
        line.iter()
            .map(|point| point.map_or_else(|| "-".to_owned(), |value| shown(value, drawing.shape)))
            .collect()
    };
    let lines: Vec<Vec<String>> = drawing.lines.iter().map(text).collect();
    let data = serde_json::json!({ "x": x, "t": when, "names": drawing.names, "v": lines });
    // Its text must not end the element.
    put_line!(
        html,
        "<script type=\"application/json\">{}</script>",
        data.to_string().replace('<', "\\u003c")
    );
}

/// The distance of the lines of a grid for values up to this one. Of a share no more is shown than that it is
/// less than a hundredth: all labels would be 0 %.
fn step(most: f64, shape: Shape) -> f64 {
    let least = if shape == Shape::Share { SHARE_MIN } else { 0.0 };
    nice(most.max(least) / 4.0)
}

/// The next 1, 2 or 5 followed by zeros that is at least this number.
fn nice(number: f64) -> f64 {
    if number <= 0.0 {
        return 1.0;
    }
    let unit = 10f64.powf(number.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| unit * step >= number);
    unit * step.unwrap_or(10.0)
}

/// A number in few characters.
pub(super) fn shown(number: f64, shape: Shape) -> String {
    if shape == Shape::Share {
        return format!("{} %", three(number * 100.0));
    }
    let text =
        match [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(unit, _)| number >= *unit)
        {
            Some((unit, name)) => format!("{} {name}", three(number / unit)),
            None => three(number),
        };
    let is_bytes = matches!(shape, Shape::Bytes | Shape::BytesPerSecond);
    match (is_bytes, shape) {
        (true, _) if text.contains(' ') => format!("{text}B"),
        (true, _) => format!("{text} B"),
        (_, Shape::Seconds) => format!("{text} s"),
        _ => text,
    }
}

/// A time, from milliseconds.
pub(super) fn shown_time(ms: f64) -> String {
    if ms < 1000.0 { format!("{} ms", three(ms)) } else { format!("{} s", three(ms / 1000.0)) }
}

/// Three digits, without trailing zeros.
fn three(number: f64) -> String {
    let digits = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
    let text = format!("{number:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!([0.3, 1.0, 1.1, 2.4, 730.0, 0.0].map(nice), [0.5, 1.0, 2.0, 5.0, 1000.0, 1.0]);
        assert_eq!(shown(0.125, Shape::Share), "12.5 %");
        assert_eq!(shown(step(1e-6, Shape::Share), Shape::Share), "0.5 %");
        assert_eq!(shown(step(0.9, Shape::Share), Shape::Share), "50 %");
        assert_eq!([shown(1234.0, Shape::BytesPerSecond), shown(12.0, Shape::Bytes)], ["1.23 kB", "12 B"]);
        assert_eq!([shown(0.0, Shape::Count), shown(1500.0, Shape::PerSecond)], ["0", "1.5 k"]);
    }

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let shapes = [Shape::Count, Shape::PerSecond, Shape::Bytes, Shape::BytesPerSecond, Shape::Seconds];
        assert_eq!(
            shapes.map(|shape| shown(2_500_000.0, shape)),
            ["2.5 M", "2.5 M", "2.5 MB", "2.5 MB", "2.5 M s"]
        );
        let texts = [0.0, 0.25, 9.994, 10.0, 99.94, 100.0, 999.0, 1e3, 1e6, 1e9, 1.5e12]
            .map(|number| shown(number, Shape::Count));
        let expected = ["0", "0.25", "9.99", "10", "99.9", "100", "999", "1 k", "1 M", "1 G", "1.5 T"];
        assert_eq!(texts, expected);
        assert_eq!([three(12.34), three(123.4), three(1.5)], ["12.3", "123", "1.5"]);
        assert_eq!([0.25, 999.0, 4020.0].map(shown_time), ["0.25 ms", "999 ms", "4.02 s"]);
    }

    #[test]
    fn gaps_are_gaps() {
        let scale = Scale { first: 100, span: 4.0, top: 2.0 };
        let points = [Some(0.0), Some(2.0), None, Some(1.0), None, Some(1.0), Some(0.0)];
        let drawn = path(&[100, 101, 102, 103, 104, 105, 106], &points, &scale);
        // From the left edge at the bottom; a point alone is a dot.
        assert_eq!(drawn, "M58.0 176.0L196.0 8.0M472.0 92.0h0M748.0 92.0L886.0 176.0");
    }

    #[test]
    fn a_plot_has_a_grid_a_legend_marks_and_its_values() {
        let lines = [vec![Some(0.0), Some(30.0), None], vec![None; 3]];
        let drawing = Drawing {
            title: "A < B",
            names: &["all & some", "none"],
            shape: Shape::PerSecond,
            times: &[1000, 2000, 5000],
            lines: &lines,
            marks: &[3000],
        };
        let times =
            Times { full: &|time| format!("at {time}"), tick: &|time, span| format!("{time} of {span}") };
        let mut html = String::new();
        draw(&mut html, &drawing, &times);
        let has = |what: &str| assert!(html.contains(what), "{what} in {html}");
        has("<figcaption>A &lt; B<span class=\"legend\"><span class=\"key c0\">all &amp; some</span></span>");
        // Steps of 10 up to 30, from the bottom to the top.
        for (y, text_y, label) in
            [("176.0", "180.0", "0"), ("120.0", "124.0", "10"), ("64.0", "68.0", "20"), ("8.0", "12.0", "30")]
        {
            has(&format!("d=\"M58 {y}H610.0\"/><text x=\"52.0\" y=\"{text_y}\" class=\"y\">{label}</text>"));
        }
        assert_eq!(html.matches("class=\"grid\"").count(), 4);
        for (class, x, anchor, time) in [
            ("", "58.0", "start", 1000),
            (" class=\"minor\"", "196.0", "middle", 2000),
            (" class=\"minor\"", "472.0", "middle", 4000),
            ("", "610.0", "end", 5000),
        ] {
            has(&format!(
                "<text{class} x=\"{x}\" y=\"194.0\" text-anchor=\"{anchor}\">{time} of 4000</text>"
            ));
        }
        has("<path class=\"event\" d=\"M334.0 8V176.0\"/>");
        has("<path class=\"line c0\" d=\"M58.0 176.0L196.0 8.0\"/>");
        has("<path class=\"line c1\" d=\"\"/>");
        has(
            r#""t":["at 1000","at 2000","at 5000"],"v":[["0","30","-"],["-","-","-"]],"x":[58.0,196.0,610.0]"#,
        );
        let before = html.len();
        draw(&mut html, &Drawing { times: &[], ..drawing }, &times);
        assert_eq!(html.len(), before);
    }
}
