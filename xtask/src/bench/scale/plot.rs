//! The plot of a series: seconds and memory over the size, both logarithmic.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::point::{MEASURES, Point};
use super::series::Series;

/// Of the picture, in pixels.
const SIZE: (u32, u32) = (1_120, 380);
/// The width of the names, on the right.
const LEGEND: u32 = 230;
/// What the plots show, by the names of [`MEASURES`].
const SHOWN: [&str; 2] = ["wall s", "memory MB"];
const COLORS: [RGBColor; 10] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(90, 90, 90),
    RGBColor(160, 160, 20),
    RGBColor(23, 190, 207),
];

/// The picture as SVG.
pub(super) fn draw(series: &Series, points: &[Point]) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let (plots, legend) = area.split_horizontally(SIZE.0 - LEGEND);
        for (half, name) in plots.split_evenly((1, SHOWN.len())).iter().zip(SHOWN) {
            panel(half, series, points, name)?;
        }
        for ((step, color), at) in series.steps.iter().zip(COLORS).zip(0..) {
            let y = 50 + 22 * at;
            let line = PathElement::new([(8, y + 6), (26, y + 6)], color.stroke_width(3));
            legend.draw(&line).map_err(failed)?;
            legend.draw(&Text::new(step.name, (32, y), ("sans-serif", 13))).map_err(failed)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    series: &Series,
    points: &[Point],
    name: &str,
) -> Result<()> {
    let Some(measure) = MEASURES.iter().find(|measure| measure.name == name) else { return Ok(()) };
    let lines: Vec<Vec<(f64, f64)>> =
        series.by_step(points).into_iter().map(|(_, points)| measure.values(&points)).collect();
    let all = || lines.iter().flatten().copied();
    let range = |of: fn((f64, f64)) -> f64| {
        let values = || all().map(of);
        values().fold(f64::MAX, f64::min) / 1.2..values().fold(0.0, f64::max) * 1.5
    };
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(format!("{name}, by {}", series.unit), ("sans-serif", 16))
        .x_label_area_size(28)
        .y_label_area_size(52)
        .build_cartesian_2d(range(|(x, _)| x).log_scale(), range(|(_, y)| y).log_scale())
        .map_err(failed)?;
    let shown = |value: &f64| if *value < 1e6 { value.to_string() } else { format!("{} M", value / 1e6) };
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).x_label_formatter(&shown).y_label_formatter(&shown);
    mesh.draw().map_err(failed)?;
    for (values, color) in lines.into_iter().zip(COLORS) {
        let marks = values.iter().map(|at| Circle::new(*at, 3, color.filled()));
        chart.draw_series(marks).map_err(failed)?;
        chart.draw_series(LineSeries::new(values, color.stroke_width(2))).map_err(failed)?;
    }
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the plot: {error}")
}
